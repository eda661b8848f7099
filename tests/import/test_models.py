"""Every tutorial's model, imported and served, answers as in PyTorch."""
import argparse
import json
import os

import torch

from compare import IDS, ImportTest, lively
from tutorials import D, SOURCE, TARGET, Fcq, Speech, Wqs
from tutorials_more import Annotated, Keys, Scratch, Torch

HEADS = ["--heads", "4"]


class Models(ImportTest):
    def config(self):
        with open(os.path.join(self.folder, "config.json"), encoding="utf-8") as file:
            return json.load(file)

    def check(self, model, *options, content=None, source_size=SOURCE, **fields):
        """fields: of config.json, as they must become."""
        lively(model)
        said = self.run_import(model.state_dict() if content is None else content(model), *HEADS, *IDS, *options)
        config = self.config()
        self.assertEqual(fields, {field: config.get(field) for field in fields})
        self.compare(model, source_size)
        return said

    # ---- w_qs ----

    def test_w_qs_with_its_embedding_norm_and_a_scaled_tied_output(self):
        said = self.check(Wqs(), source_size=TARGET, tie_output=True, share_embeddings=True, scale_output=True,
                          embedding_layer_norm=True, final_layer_norm=False, layer_norm_eps=1e-6, d_k=5, d_v=7)
        self.assertIn("attention-is-all-you-need-pytorch", said)

    def test_w_qs_with_tables_of_their_own_scales_nothing(self):
        self.check(Wqs(tied=False), tie_output=False, share_embeddings=False, scale_output=False, scale_embedding=False)

    def test_w_qs_takes_heads_and_scaling_from_the_settings_in_the_checkpoint(self):
        model = lively(Wqs(scale="emb"))
        settings = argparse.Namespace(n_head=4, scale_emb_or_prj="emb")
        said = self.run_import({"epoch": 3, "settings": settings, "model": model.state_dict()}, *IDS)
        self.assertIn("settings, n_head", said)
        self.assertEqual((True, False), (self.config()["scale_embedding"], self.config()["scale_output"]))
        self.compare(model, TARGET)

    def test_w_qs_of_a_middle_version_with_the_norm_behind_its_layers(self):
        self.check(Wqs("middle"), "--stack-norm", "final", source_size=TARGET, embedding_layer_norm=False, final_layer_norm=True)

    def test_w_qs_of_the_first_version_with_convolutions_and_positions_from_1(self):
        said = self.check(Wqs("first"), source_size=TARGET, layer_norm_eps=1e-5, attention_bias=True)
        self.assertIn("row 0 is for padding", said)

    # ---- fc_q ----

    def test_fc_q_with_learned_positions(self):
        self.check(Fcq(), position_embedding="learned", max_position_embeddings=40, norm_position="post", scale_embedding=True,
                   attention_bias=True, output_bias=True)

    def test_fc_q_of_the_first_version_with_one_norm_in_a_layer(self):
        self.check(Fcq(one_norm=True))

    def test_fc_q_with_stacks_of_other_sizes_is_filled_up_and_cut(self):
        said = self.check(Fcq(inner=(24, 40), positions=(50, 30)), d_ff=40, max_position_embeddings=30)
        self.assertIn("24 wide, filled up with zeros to 40", said)
        self.assertIn("30 are kept of each", said)

    def test_stored_square_roots_are_checked_against_the_heads(self):
        model = Fcq(scales=True)
        self.check(model)
        said = self.refused_anew(model, "--heads", "8")
        self.assertIn("encoder.layers.0.self_attn.scale is 2.82843; with 8 heads it should be √4", said)

    def refused_anew(self, model, *options):
        self.folder += ".other"
        return self.refused(model.state_dict(), *IDS, *options)

    # ---- linear_q ----

    def test_linear_q_with_norms_before(self):
        said = self.check(Speech(), norm_position="pre", final_layer_norm=True, layer_norm_eps=1e-12, scale_embedding=True,
                          position_embedding="sinusoidal", max_position_embeddings=5000)
        self.assertIn("ESPnet", said)

    def test_linear_q_with_norms_behind(self):
        self.check(Speech(before=False), norm_position="post", final_layer_norm=False)

    def test_linear_q_with_positions_times_a_learned_number(self):
        said = self.check(Speech(alpha=True), "--max-positions", "60", position_embedding="learned", scale_embedding=False,
                          max_position_embeddings=60)
        self.assertIn("stored times 0.7", said)

    # ---- linear_query ----

    def test_linear_query_and_keys_with_the_output_kept_apart_and_a_mask(self):
        def content(model):
            state = model.state_dict()
            return {"model": {name: tensor for name, tensor in state.items() if "generator" not in name},
                    "generator": {name.removeprefix("generator."): t for name, t in state.items() if "generator" in name},
                    "opt": argparse.Namespace(heads=4, pos_ffn_activation_fn="relu"), "optim": {"step": 7}}
        self.check(Keys(), content=content, norm_position="pre", layer_norm_eps=1e-6, final_layer_norm=True, output_bias=True)

    def test_linear_query_and_keys_without_biases_and_with_gelu_by_its_settings(self):
        model = lively(Keys(bias=False, activation="gelu"))
        self.run_import({"model": model.state_dict(), "opt": argparse.Namespace(heads=4, pos_ffn_activation_fn="gelu")}, *IDS)
        self.assertEqual(("gelu", False), (self.config()["activation"], self.config()["attention_bias"]))
        self.compare(model, SOURCE)

    def test_linear_query_and_key_in_the_annotated_form_has_no_original(self):
        model = Annotated(query=True)
        message = self.refused_anew(model, *HEADS)
        for option in "--norm-position", "--norm-eps", "--activation", "--scale-embedding":
            self.assertIn(option, message)
        self.assertNotIn("--norm-variance", message)
        self.check(model, "--norm-position", "pre", "--norm-eps", "1e-6", "--activation", "relu", "--scale-embedding", "yes",
                   norm_variance="unbiased")

    # ---- linears.0, a_2 ----

    def test_linears_with_unbiased_norms(self):
        said = self.check(Annotated(), norm_variance="unbiased", norm_position="pre", final_layer_norm=True,
                          position_embedding="sinusoidal", max_position_embeddings=40)
        self.assertIn("the stored sines are the formula's", said)

    def test_positions_that_are_not_the_formulas_are_kept(self):
        self.check(Annotated(halves=True), "--max-positions", "30", position_embedding="learned", max_position_embeddings=30)

    # ---- in_proj_weight ----

    def test_in_proj_weight_with_the_surroundings_of_pytorchs_tutorial(self):
        said = self.check(Torch(), norm_position="post", final_layer_norm=True, layer_norm_eps=1e-5, scale_embedding=True)
        self.assertIn("PyTorch's translation tutorial", said)

    def test_in_proj_weight_elsewhere_asks_for_what_its_constructor_takes(self):
        model = Torch(official=False, norm_first=True, activation="gelu", bias=False)
        message = self.refused_anew(model)
        for option in "--heads", "--norm-position", "--activation", "--scale-embedding", "--positions", "--max-positions":
            self.assertIn(option, message)
        self.check(model, "--norm-position", "pre", "--activation", "gelu", "--scale-embedding", "no", "--positions",
                   "sinusoidal", "--max-positions", "64", attention_bias=False, ffn_bias=False)

    # ---- others ----

    def test_names_of_nobody_in_particular(self):
        model = Scratch()
        message = self.refused_anew(model, *HEADS)
        for option in "--norm-variance", "--positions", "--tie-output":
            self.assertIn(option, message)
        self.check(model, "--norm-position", "pre", "--norm-eps", "1e-6", "--norm-variance", "unbiased", "--activation", "gelu",
                   "--scale-embedding", "no", "--positions", "none", "--tie-output", "yes", source_size=TARGET,
                   share_embeddings=True, tie_output=True, attention_bias=True, scale_output=False)

    def test_wrappers_of_the_whole_model_are_taken_off(self):
        model = Fcq()
        wrapped = lambda m: {"state_dict": {"module._orig_mod." + name: tensor for name, tensor in m.state_dict().items()}}
        self.check(model, content=wrapped)

    def test_weights_in_half_and_double_precision(self):
        model = lively(Fcq())
        for name, parameter in model.named_parameters():
            parameter.data = parameter.data.bfloat16().float()
        state = {name: tensor.bfloat16() if "fc_" in name else tensor.double() for name, tensor in model.state_dict().items()}
        self.run_import(state, *HEADS, *IDS)
        self.compare(model, SOURCE)
        self.assertLess(os.path.getsize(os.path.join(self.folder, "model.safetensors")),
                        3 * sum(p.numel() for p in model.parameters()))

    def test_special_tokens_may_have_other_ids(self):
        model = lively(Fcq())
        self.run_import(model.state_dict(), *HEADS, "--pad", "5", "--bos", "7", "--eos", "9", "--start", "8")
        client = self.serve()
        answer = self.ask(client, "generate", input_ids=[[4, 6, 11]], parameters={"max_new_tokens": 1})
        logits = model.logits(model.encode(torch.tensor([4, 6, 11])), torch.tensor([8]))
        self.assertEqual([logits[-1].argmax().item()], answer["outputs"][0]["sequences"][0]["token_ids"])
        self.assertEqual(D, self.config()["d_model"])
