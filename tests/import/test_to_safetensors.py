"""tools/to_safetensors.py: which tensors it writes, what it refuses, and that the daemon opens what it wrote."""
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

import torch
from safetensors.torch import load_file

TOOL = pathlib.Path(__file__).parents[2] / "tools" / "to_safetensors.py"
CONFIG = {"model_type": "transformer", "d_model": 4, "encoder_layers": 1, "decoder_layers": 1, "attention_heads": 2,
          "d_ff": 8, "vocab_size": 6, "share_embeddings": True, "tie_output": True, "max_position_embeddings": 16}


def tiny_model():
    """A state dict of CONFIG whose embedding has the names that Transformers would save."""
    state = {"shared.weight": torch.randn(6, 4)}
    for name in ("encoder.layers.0.self_attn", "decoder.layers.0.self_attn", "decoder.layers.0.encoder_attn"):
        state |= {f"{name}.{part}_proj.weight": torch.randn(4, 4) for part in ("q", "k", "v", "out")}
        state |= {f"{name}_layer_norm.weight": torch.ones(4), f"{name}_layer_norm.bias": torch.zeros(4)}
    for name in ("encoder.layers.0", "decoder.layers.0"):
        state |= {f"{name}.fc1.weight": torch.randn(8, 4), f"{name}.fc1.bias": torch.randn(8),
                  f"{name}.fc2.weight": torch.randn(4, 8), f"{name}.fc2.bias": torch.randn(4),
                  f"{name}.final_layer_norm.weight": torch.ones(4), f"{name}.final_layer_norm.bias": torch.zeros(4)}
    return state


class RunsCode:
    def __reduce__(self):
        return os.mkdir, ("it-ran",)


class ToSafetensors(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.dir = pathlib.Path(temporary.name)

    def run_tool(self, *more):
        return subprocess.run([sys.executable, TOOL, self.dir, *more], cwd=self.dir, capture_output=True, text=True)

    def convert(self, state, **config):
        torch.save(state, self.dir / "pytorch_model.bin")
        (self.dir / "config.json").write_text(json.dumps(config))
        ran = self.run_tool()
        self.assertEqual(ran.returncode, 0, ran.stderr)
        return load_file(self.dir / "model.safetensors")

    def assert_refused(self, content, part):
        torch.save(content, self.dir / "pytorch_model.bin")
        ran = self.run_tool()
        self.assertEqual(ran.returncode, 1)
        self.assertIn(part, ran.stderr)
        self.assertEqual(os.listdir(self.dir), ["pytorch_model.bin"])

    def assert_opens(self, folder):
        ran = subprocess.run([os.environ["SEQD"], "check", "--model", folder], capture_output=True, text=True)
        self.assertEqual(ran.returncode, 0, ran.stderr)

    def test_tied_names_are_stored_once_under_the_first(self):
        table = torch.randn(6, 4)
        names = ["shared.weight", "encoder.embed_tokens.weight", "decoder.embed_tokens.weight", "lm_head.weight"]
        stored = self.convert(dict.fromkeys(names, table))
        self.assertEqual(list(stored), ["shared.weight"])
        self.assertTrue(torch.equal(stored["shared.weight"], table))

    def test_an_output_that_the_config_does_not_tie_is_kept(self):
        table = torch.randn(6, 4)
        stored = self.convert({"shared.weight": table, "lm_head.weight": table}, tie_word_embeddings=False)
        self.assertTrue(torch.equal(stored["lm_head.weight"], table))

    def test_names_that_nobody_ties_are_copied(self):
        weight = torch.randn(4, 4)
        stored = self.convert({"layers.0.weight": weight, "layers.1.weight": weight})
        self.assertTrue(torch.equal(stored["layers.0.weight"], stored["layers.1.weight"]))

    def test_views_become_tensors_of_their_own(self):
        whole = torch.arange(24.0).reshape(4, 6)
        views = {"a": whole[1:3], "b": whole.t(), "c": whole[:, ::2], "d": whole, "e": torch.empty(0, 3)}
        stored = self.convert(views)
        self.assertEqual(sorted(stored), sorted(views))
        for name, view in views.items():
            self.assertTrue(torch.equal(stored[name], view), name)

    def test_types_stay_as_they_are(self):
        types = (torch.float32, torch.float16, torch.bfloat16, torch.int64, torch.bool)
        stored = self.convert({str(dtype): torch.ones(3, dtype=dtype) for dtype in types})
        self.assertEqual({tensor.dtype for tensor in stored.values()}, set(types))

    def test_the_daemon_opens_what_was_converted(self):
        state = tiny_model()
        self.convert(state | {"encoder.embed_tokens.weight": state["shared.weight"]}, **CONFIG)
        self.assert_opens(self.dir)

    def test_shards_become_shards_with_an_index(self):
        state, out = tiny_model(), self.dir / "out"
        names = ["pytorch_model-00001-of-00002.bin", "pytorch_model-00002-of-00002.bin"]
        weight_map = {tensor: names[i % 2] for i, tensor in enumerate(state)}
        for name in names:
            torch.save({t: state[t] for t in state if weight_map[t] == name}, self.dir / name)
        (self.dir / "pytorch_model.bin.index.json").write_text(json.dumps({"weight_map": weight_map}))
        (self.dir / "config.json").write_text(json.dumps(CONFIG))
        ran = self.run_tool("--out", out)
        self.assertEqual(ran.returncode, 0, ran.stderr)
        self.assertEqual(sorted(os.listdir(out)), ["config.json", "model-00001-of-00002.safetensors",
                                                   "model-00002-of-00002.safetensors", "model.safetensors.index.json"])
        self.assert_opens(out)

    def test_code_in_a_file_is_not_run(self):
        self.assert_refused({"a": RunsCode()}, "could run code: Trying to load unsupported GLOBAL")

    def test_what_is_no_dict_of_tensors_is_refused(self):
        self.assert_refused({"model": {"a": torch.ones(1)}, "epoch": 3}, "['model', 'epoch']")
        self.assert_refused([torch.ones(1)], "no flat dict")
        self.assert_refused({"a": torch.eye(3).to_sparse()}, "sparse")

    def test_a_file_that_is_there_is_not_overwritten(self):
        self.convert({"a": torch.ones(1)})
        ran = self.run_tool()
        self.assertEqual(ran.returncode, 1)
        self.assertIn("is there already", ran.stderr)

    def test_an_index_that_leads_out_of_the_folder_is_refused(self):
        index = self.dir / "pytorch_model.bin.index.json"
        for name, part in (("../x.bin", "plain name"), ("x.pt", "ends in .bin"), ("x.bin", "No such file")):
            index.write_text(json.dumps({"weight_map": {"a": name}}))
            self.assertIn(part, self.run_tool().stderr)
        index.unlink()
        self.assertIn("neither pytorch_model.bin nor", self.run_tool().stderr)
