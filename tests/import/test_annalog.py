"""examples/annalog: the served model answers as the package's own code does."""
import contextlib
import importlib.util
import pathlib
import sys
import unittest

import torch

from compare import LOGPROBS, ImportTest

sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "examples/annalog"))
import make_model  # noqa: E402

NEEDED = "annalog", "rdkit", "partialsmiles"
MISSING = [name for name in NEEDED if importlib.util.find_spec(name) is None]

MOLECULES = ["CC(=O)Oc1ccccc1C(=O)O", "CC(C)Cc1ccc(cc1)C(C)C(=O)O", "CC(Cl)Br", "C[C@H](N)C(=O)O",
             "COc1ccc2[nH]cc(CCN(C)C)c2c1", "C[Si](C)(C)CI"]  # the last with tokens that the vocabulary does not have
BEAMS = 3


@unittest.skipIf(MISSING, f"not installed: {', '.join(MISSING)}")
class Annalog(ImportTest):
    @classmethod
    def setUpClass(cls):
        from annalog import SMILESGenerator, SMILESModelHandler
        torch.set_num_threads(1)
        weights, vocabulary = map(str, make_model.package_files())
        handler = SMILESModelHandler(vocabulary, vocabulary, weights, device="cpu")
        cls.model, cls.source, cls.own = handler.model, handler.SRC, SMILESGenerator(handler)

    def setUp(self):
        super().setUp()
        with contextlib.redirect_stdout(None):
            make_model.make(self.folder)
        self.client = self.serve()

    def generate(self, molecules, decoder_input_ids=None, **parameters):
        prefix = {"decoder_input_ids": decoder_input_ids} if decoder_input_ids else {}
        outputs = self.ask(self.client, "generate", inputs=molecules, parameters=parameters, **prefix)["outputs"]
        return [output["sequences"] for output in outputs]

    @torch.no_grad()
    def test_annalog_tokens_and_states_are_its_own(self):
        data = self.ask(self.client, "encode", inputs=MOLECULES, return_tokens=True)["data"]
        for molecule, datum in zip(MOLECULES, data):
            ids = self.source.process([self.source.preprocess(molecule)])
            self.assertEqual(ids[0].tolist(), datum["token_ids"])
            self.near(self.model.encoder(ids, self.model.make_src_mask(ids))[0], datum["embedding"], 1e-4)

    def test_annalog_with_one_beam_is_greedy_search(self):
        for molecule, (sequence,) in zip(MOLECULES, self.generate(MOLECULES)):
            ((answer, logprob),) = self.own.generate_smiles(molecule, 1, "beam")
            self.assertEqual(answer, sequence["text"])
            self.assertAlmostEqual(logprob, sequence["logprob"], delta=LOGPROBS)

    @torch.no_grad()
    def test_annalog_with_beams_has_the_same_best_answer_and_its_scores(self):
        """Only the best: its own search gives hypotheses the scores of others as soon as one has ended."""
        some = MOLECULES[2:4]
        answers = self.generate(some, num_beams=BEAMS, num_return_sequences=BEAMS, length_penalty=0.0, early_stopping=True)
        for molecule, sequences in zip(some, answers):
            answer, score = self.own.generate_smiles(molecule, BEAMS, "beam")[0]
            self.assertEqual(answer, sequences[0]["text"])
            self.assertAlmostEqual(score, sequences[0]["score"], delta=LOGPROBS)
            for sequence in sequences:
                self.assertAlmostEqual(self.own.score_smiles(molecule, sequence["text"])[0], -sequence["score"], delta=LOGPROBS)

    def test_annalog_with_a_prefix(self):
        molecule, prefix = MOLECULES[1], "CC(C)Cc1ccc(cc1)"
        own = self.own.generate_smiles(molecule, 1, "beam", prefix=prefix)[0][0]
        row = self.ask(self.client, "encode", inputs=[prefix], pooling="mean", return_tokens=True)["data"][0]["token_ids"]
        ((sequence,),) = self.generate([molecule], [row[:-1]])
        self.assertEqual(own, prefix + sequence["text"])

    def test_annalog_scores_a_given_answer_as_its_own(self):
        for molecule, answer in zip(MOLECULES[:3], MOLECULES[1:4]):
            output = self.ask(self.client, "score", inputs=[molecule], targets=[answer])["outputs"][0]
            with torch.no_grad():
                self.assertAlmostEqual(self.own.score_smiles(molecule, answer)[0], -output["logprob"], delta=LOGPROBS)
