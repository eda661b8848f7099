"""What is refused, and in which words; what a folder with a vocabulary does."""
import argparse
import collections
import json
import os
import pickle

import torch

from compare import EOS, IDS, ImportTest, lively
from tutorials import SOURCE, TARGET, Fcq, Wqs, sines
from tutorials_more import Annotated, Keys

HEADS = ["--heads", "4"]
COMPLETE = HEADS + IDS


class Trap:
    """A pickle of it makes a file when it is loaded with its code."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return open, (self.path, "w")


class Refused(ImportTest):
    def fcq(self, **more):
        return collections.OrderedDict(lively(Fcq()).state_dict()) | more

    def test_every_needed_option_is_named_with_its_reason(self):
        message = self.refused(self.fcq())
        for option in "--heads", "--pad", "--bos", "--eos":
            self.assertRegex(message, option + " +[a-z]")
        self.assertNotIn("--norm-position", message)

    def test_tensors_without_a_place_are_named(self):
        message = self.refused(self.fcq(**{"encoder.layers.0.self_attention.gate.weight": torch.ones(3, 4), "extra": torch.ones(2)}),
                               *COMPLETE)
        self.assertIn("encoder.layers.0.self_attention.gate.weight [3, 4]", message)
        self.assertIn("extra [2]", message)

    def test_ignore_and_rename_help(self):
        state = {name.replace("tok_embedding", "words.of"): tensor for name, tensor in self.fcq(extra=torch.ones(2)).items()}
        self.assertIn("encoder.words.of.weight", self.refused(state, *COMPLETE))
        self.run_import(state, *COMPLETE, "--rename", "words.of=tok_embedding", "--ignore", "extra")
        self.assertTrue(os.path.exists(self.folder))

    def test_missing_tensors_are_named(self):
        state = self.fcq()
        del state["decoder.layers.1.encoder_attention.fc_k.weight"]
        self.assertIn("decoder.layers.1.encoder_attn.k_proj.weight", self.refused(state, *COMPLETE))

    def test_a_missing_layer_is_seen(self):
        state = {name: tensor for name, tensor in self.fcq().items() if not name.startswith("decoder.layers.1.")}
        self.assertIn("the layers of the decoder are [0, 2]", self.refused(state, *COMPLETE))

    def test_a_tensor_of_another_shape_is_named(self):
        state = self.fcq(**{"encoder.layers.1.self_attention.fc_o.bias": torch.ones(5)})
        self.assertIn("encoder.layers.1.self_attn.out_proj.bias is [5]; it should be [32]", self.refused(state, *COMPLETE))

    def test_heads_that_do_not_divide_are_refused(self):
        self.assertIn("--heads 5: the 32 rows of q_proj", self.refused(self.fcq(), "--heads", "5", *IDS))

    def test_an_id_outside_of_the_vocabulary_is_refused(self):
        self.assertIn(f"eos_token_id is {TARGET}; the vocabulary is 0..{TARGET - 1}",
                      self.refused(self.fcq(), *HEADS, "--pad", "1", "--bos", "2", "--eos", str(TARGET)))

    def test_a_mask_that_hides_something_else_is_refused(self):
        state = lively(Keys()).state_dict()
        state["decoder.transformer_layers.0.mask"] = torch.ones(1, 50, 50).byte().tril(3)
        self.assertIn("decoder.transformer_layers.0.mask is not the mask", self.refused(state, *COMPLETE))

    def test_relative_positions_that_leave_no_tensor_are_refused(self):
        settings = argparse.Namespace(heads=4, max_relative_positions=-1)
        self.assertIn("positions are relative", self.refused({"model": lively(Keys()).state_dict(), "opt": settings}, *IDS))

    def test_a_norm_without_a_bias_may_be_another_norm(self):
        state = {name: tensor for name, tensor in self.fcq().items() if not name.endswith("ff_layer_norm.bias")}
        self.assertIn("another one than LayerNorm", self.refused(state, *COMPLETE))

    def test_a_norm_of_one_stack_alone_is_refused(self):
        state = lively(Annotated()).state_dict()
        del state["decoder.norm.a_2"], state["decoder.norm.b_2"]
        self.assertIn("only one of encoder and decoder has a final layer norm", self.refused(state, *COMPLETE))

    def test_more_positions_than_a_stored_table_are_refused(self):
        self.assertIn("--max-positions 41", self.refused(self.fcq(), *COMPLETE, "--max-positions", "41"))

    def test_a_checkpoint_that_would_run_code_is_not_loaded(self):
        trap = os.path.join(self.directory, "trap")
        message = self.refused({"model": self.fcq(), "more": Trap(trap)}, *COMPLETE)
        self.assertIn("holds more than weights (", message)
        self.assertIn("torch.save(model.state_dict()", message)
        self.assertFalse(os.path.exists(trap))

    def test_a_whole_pickled_module_is_not_loaded(self):
        self.assertIn("holds more than weights", self.refused(Fcq(), *COMPLETE))

    def test_what_is_no_checkpoint_is_refused(self):
        self.assertIn("holds a list", self.refused([torch.ones(2)], *COMPLETE))
        self.assertIn("no state dict", self.refused({"epoch": 3}, *COMPLETE))
        for content, wanted in (b"", "file.pt: "), (b"no pickle", "it is no checkpoint"), (pickle.dumps({"a": 1}, 2), "file.pt: "):
            path = os.path.join(self.directory, "file.pt")
            with open(path, "wb") as file:
                file.write(content)
            with self.assertRaises(SystemExit) as caught:
                self.main(path)
            self.assertIn("file.pt", str(caught.exception))
            self.assertIn(wanted, str(caught.exception))

    def main(self, path):
        import import_checkpoint
        import_checkpoint.main([path, self.folder, *COMPLETE])

    def test_a_model_that_is_there_is_not_written_over(self):
        self.run_import(self.fcq(), *COMPLETE)
        with self.assertRaises(SystemExit) as caught:
            self.main(self.save(self.fcq()))
        self.assertIn("there is a model already", str(caught.exception))

    def test_names_of_no_tutorial_are_refused(self):
        self.assertIn("no place is known", self.refused({"conv1.weight": torch.ones(3, 3, 7)}, *COMPLETE))

    def test_stored_sines_are_compared_with_the_formula(self):
        state = lively(Wqs()).state_dict()
        state["encoder.position_enc.pos_table"] = sines(40)[None] + 0.001
        said = self.run_import(state, *COMPLETE)
        self.assertIn("off the formula's by up to 1e-03 and kept", said)
        with open(os.path.join(self.folder, "config.json"), encoding="utf-8") as file:
            self.assertEqual("learned", json.load(file)["position_embedding"])


class Vocabularies(ImportTest):
    def setUp(self):
        super().setUp()
        self.source = ["<unk>", "<pad>", "<sos>", "<eos>"] + [f"s{n}" for n in range(4, SOURCE)]
        self.target = ["<unk>", "<pad>", "<sos>", "<eos>"] + [f"t{n}" for n in range(4, TARGET)]
        self.state = lively(Fcq()).state_dict()

    def file(self, name, tokens):
        path = os.path.join(self.directory, name)
        with open(path, "w", encoding="utf-8") as file:
            file.write(json.dumps(tokens) if name.endswith(".json") else "\n".join(tokens) + "\n")
        return path

    def options(self, source=None, target=None):
        return [*HEADS, "--source-vocab", source or self.file("s.txt", self.source),
                "--target-vocab", target or self.file("t.json", self.target)]

    def test_words_are_tokenized_and_special_ids_found_in_the_vocabulary(self):
        ids = {token: number for number, token in enumerate(self.target)}
        said = self.run_import(self.state, *self.options(target=self.file("ids.json", ids)), "--tokenizer", "words", "--lowercase",
                               "--source-begin", "<sos>", "--source-end", "<eos>", "--max-length", "9")
        self.assertRegex(said, r"eos_token_id +3 +<eos> of the vocabulary")
        client = self.serve()
        words = self.ask(client, "generate", inputs=["S9 s5 what"])["outputs"][0]["sequences"][0]
        numbers = self.ask(client, "generate", input_ids=[[2, 9, 5, 0, 3]])["outputs"][0]["sequences"][0]
        self.assertEqual(numbers["token_ids"], words["token_ids"])
        self.assertLessEqual(len(words["token_ids"]), 8)
        shown = [self.target[token] for token in words["token_ids"] if token not in (1, 2, EOS)]
        self.assertEqual(" ".join(shown), words["text"])

    def test_another_unknown_token_is_renamed(self):
        self.source[0] = self.target[0] = "???"
        options = [*self.options(), "--tokenizer", "words", "--source-begin", "", "--source-end", ""]
        self.assertIn("--unknown says which token it is", self.refused(self.state, *options))
        self.run_import(self.state, *options, "--unknown", "???")
        with open(os.path.join(self.folder, "vocab.json"), encoding="utf-8") as file:
            self.assertEqual("<unk>", json.load(file)["target"][0])

    def test_what_the_tokenizer_needs_is_asked_for(self):
        message = self.refused(self.state, *self.options())
        for option in "--tokenizer", "--source-begin", "--source-end":
            self.assertIn(option, message)
        self.assertIn("--pattern", self.refused(self.state, *self.options(), "--tokenizer", "pattern", "--source-begin", "",
                                                "--source-end", ""))

    def test_bad_vocabularies_are_refused(self):
        full = ["--tokenizer", "words", "--source-begin", "<sos>", "--source-end", "<eos>"]
        for source, message in ((self.source + ["more"], f"a vocabulary of {SOURCE + 1} tokens"),
                                (self.source[:-1] + ["s4"], "'s4' is there twice"),
                                ([token.replace("<sos>", "<go>") for token in self.source], "'<sos>' is not in")):
            self.assertIn(message, self.refused(self.state, *self.options(self.file("s.txt", source)), *full))
        self.assertIn("the ids are not 0 to 1", self.refused(self.state, *self.options(self.file("s.json", {"a": 0, "b": 2})), *full))
        self.assertIn("--target-vocab is needed", self.refused(self.state, *self.options()[:-2], *full))
