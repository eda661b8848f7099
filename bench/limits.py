"""What a machine allows: the most tokens per second that a job can have, whoever runs it.

A pass reads each weight from memory once and multiplies it by each token, and nothing else takes
time: max(bytes / bytes per second, Σ products / products per second).  limits.c measures the two.
Left out: activations, norms, softmax, the choice of tokens, keys and values from memory.
"""

import json
import os
import subprocess


def machine_limits(seqd, threads):
    """What limits.c says, or None where it is not built or knows no loop for this CPU."""
    program = os.path.join(os.path.dirname(seqd or ""), "bench", "limits")
    if not os.path.exists(program):
        return None
    done = subprocess.run([program, str(threads)], capture_output=True, text=True, check=True)
    rates = json.loads(done.stdout)
    return rates if rates["float32_gflops"] and rates["int8_gops"] else None


class Shape:
    """Numbers of weights: of an encoder layer, of a decoder layer, of its cross keys and values,
    and of the output layer."""

    def __init__(self, config):
        def first(*names):
            return next(config[name] for name in names if name in config)

        width = first("d_model", "hidden_size")
        inner = first("decoder_ffn_dim", "d_ff", "intermediate_size")
        self.heads = config["d_kv"] * config["num_heads"] if "d_kv" in config else width
        self.encoder_layers = first("encoder_layers", "num_layers", "num_hidden_layers")
        self.decoder_layers = config.get("decoder_layers", config.get("num_decoder_layers", 0))
        self.encoder = 4 * width * self.heads + 2 * width * inner
        self.cross = 2 * width * self.heads
        self.decoder = self.encoder + self.cross  # cross queries and outputs are as many
        self.output = width * config["vocab_size"]
        # T5's second inner matrix stays in float32 beside int8 ones.
        self.float32_share = width * inner / self.encoder if config["model_type"] == "t5" else 0


class Pass:
    """Seconds of one pass, added up piece by piece."""

    def __init__(self, rates):
        self.rates, self.bytes, self.product_seconds = rates, 0.0, 0.0

    def multiply(self, weights, tokens, precision):
        size = {"float32": 4, "bfloat16": 2, "int8": 1}[precision]
        rate = self.rates["int8_gops" if precision == "int8" else "float32_gflops"]
        self.bytes += weights * size
        self.product_seconds += 2e-9 * weights * tokens / rate

    def attend(self, scores, width):
        """Every score is a product of `width`, and so is what it adds to the outcome."""
        self.product_seconds += 4e-9 * scores * width / self.rates["float32_gflops"]

    def seconds(self):
        return max(self.bytes * 1e-9 / self.rates["read_gb_s"], self.product_seconds)


def encoder_seconds(shape, rates, sources, precision, decodes):
    one, tokens = Pass(rates), sum(sources)
    wide = shape.float32_share if precision == "int8" else 0
    one.multiply(shape.encoder_layers * shape.encoder * (1 - wide), tokens, precision)
    one.multiply(shape.encoder_layers * shape.encoder * wide, tokens, "float32")
    one.attend(shape.encoder_layers * sum(n * n for n in sources), shape.heads)
    if decodes:
        one.multiply(shape.decoder_layers * shape.cross, tokens, precision)
    return one.seconds()


def step_seconds(shape, rates, keys, rows, precision, screened):
    """`keys`: of all rows, own ones and the source's; `rows`: hypotheses."""
    one = Pass(rates)
    wide = shape.float32_share * shape.encoder / shape.decoder if precision == "int8" else 0
    one.multiply(shape.decoder_layers * shape.decoder * (1 - wide), rows, precision)
    one.multiply(shape.decoder_layers * shape.decoder * wide, rows, "float32")
    one.multiply(shape.output, rows, "int8" if screened else precision)
    one.attend(shape.decoder_layers * keys, shape.heads)
    return one.seconds()


def job_seconds(config, rates, sources, new, beams, precision, screened):
    """`sources`: lengths; `new`: tokens to generate, 0: encode alone."""
    shape = Shape(config)
    seconds = encoder_seconds(shape, rates, sources, precision, new > 0)
    rows = beams * len(sources)
    for step in range(1, new + 1):
        keys = beams * sum(sources) + rows * step
        seconds += step_seconds(shape, rates, keys, rows, precision, screened)
    return seconds
