"""Random requests: rows with every kind of mask, and combinations of every option of the reference.

Ids that rules name are taken mostly from what the model says anyway, so that the rules change the
answer.  Everything comes from one `random.Random`: the same seed, the same requests.
"""

GREEDY, BEAMS, SAMPLE = "greedy", "beams", "sample"

OPTIONS = (
    "max_new_tokens max_length min_new_tokens min_length num_beams num_return_sequences "
    "length_penalty early_stopping do_sample temperature top_h top_k top_p min_p typical_p "
    "epsilon_cutoff eta_cutoff repetition_penalty no_repeat_ngram_size "
    "encoder_no_repeat_ngram_size encoder_repetition_penalty bad_words_ids suppress_tokens "
    "begin_suppress_tokens sequence_bias forced_bos_token_id forced_eos_token_id "
    "decoder_start_token_id eos_token_id exponential_decay_length_penalty renormalize_logits "
    "remove_invalid_values logprobs output_attentions decoder_input_ids"
).split()

LONGEST, LONG = 14, 80  # new tokens; at times


class Row:
    """A source row: its ids, the mask that is sent and the one that is meant (None: all ones)."""

    def __init__(self, ids, sent=None, meant=None):
        self.ids, self.sent, self.meant = ids, sent, meant

    @property
    def real(self):
        return [i for i, m in enumerate(self.meant or [1] * len(self.ids)) if m]


def meant_mask(reference, ids):
    """What the daemon makes of a row without a mask: pads at its end do not count."""
    count = len(ids)
    if not (reference.generates and reference.pad in reference.eos):
        while count > 1 and ids[count - 1] == reference.pad:
            count -= 1
    return None if count == len(ids) else [1] * count + [0] * (len(ids) - count)


def asked_of(reference, body):
    """For each row of a body: its Row, options and prefix."""
    ids = body["input_ids"]
    masks = body.get("attention_mask") or [None] * len(ids)
    options = body.get("parameters") or {}
    options = options if isinstance(options, list) else [options] * len(ids)
    prefixes = body.get("decoder_input_ids") or [None] * len(ids)
    rows = [Row(i, m, m or meant_mask(reference, i)) for i, m in zip(ids, masks)]
    return list(zip(rows, options, prefixes))


class Maker:
    def __init__(self, reference, random, top):
        self.reference, self.random, self.top = reference, random, top
        r = reference
        special = {r.pad}
        if r.generates:
            forced = r.defaults.forced_bos_token_id
            special |= {r.start, *r.eos} | (set() if forced is None else {forced})
        self.specials = sorted(t for t in special if t < r.source_vocabulary)
        self.source = [t for t in range(r.source_vocabulary) if t not in special]
        self.places = min(r.positions or 600, 600)
        self.rows, self.answers = [], []
        if r.generates:
            self.target = [t for t in range(r.target_vocabulary) if t not in special]
            self.learn_answers()

    def chance(self, probability):
        return self.random.random() < probability

    def learn_answers(self):
        """Some rows and what the model says to them when no rule meddles."""
        plain = {"num_beams": 1, "do_sample": False, "max_new_tokens": LONGEST}
        for _ in range(10):
            ids = self.source_ids(self.random.randint(2, 10))
            self.rows.append(ids)
            self.answers.append(self.reference.generate(ids, None, plain)[0]["token_ids"])

    def source_ids(self, count):
        """Random tokens as a tokenizer would leave them: mostly with an end, at times a begin."""
        ids = [self.random.choice(self.source) for _ in range(count)]
        r = self.reference
        if r.generates and self.chance(0.85):
            ids.append(r.eos[0] if r.eos and r.eos[0] < r.source_vocabulary else ids[0])
        if r.generates and r.defaults.bos_token_id is not None and self.chance(0.3):
            ids.insert(0, min(r.defaults.bos_token_id, r.source_vocabulary - 1))
        if len(ids) > 2 and self.chance(0.1):  # a special id in the middle counts like any other
            ids[self.random.randint(1, len(ids) - 2)] = self.random.choice(self.specials)
        return ids[: self.places]

    def row(self, masked):
        known = self.rows and self.chance(0.7)
        ids = self.random.choice(self.rows) if known else self.source_ids(
            self.random.randint(1, 10))
        ids = list(ids[: max(1, self.places - 3)])
        pads = [self.reference.pad] * self.random.randint(1, 3)
        pads = pads[: max(0, self.places - len(ids))]
        if not masked:
            ids += pads if self.chance(0.2) else []
            return Row(ids, None, meant_mask(self.reference, ids))
        mask = [1] * len(ids)
        kind = self.random.choice(["ones", "right", "left", "interior", "both"])
        if kind == "right" or kind == "both":
            ids, mask = ids + pads, mask + [0] * len(pads)
        elif kind == "left":
            ids, mask = pads + ids, [0] * len(pads) + mask
        if kind in ("interior", "both") and sum(mask) > 1:
            for at in self.random.sample(range(len(mask)), self.random.randint(1, len(mask) - 1)):
                mask[at] = 0 if sum(mask) > 1 else mask[at]
        if self.chance(0.2):
            mask = [m == 1 for m in mask]
        return Row(ids, mask, mask)

    def some_rows(self):
        masked = self.chance(0.5)
        count = self.random.choice([1, 1, 1, 2, 2, 3])
        return [self.row(masked) for _ in range(count)]

    @staticmethod
    def body(rows):
        body = {"input_ids": [row.ids for row in rows]}
        if any(row.sent for row in rows):
            body["attention_mask"] = [row.sent for row in rows]
        return body

    # Ids for the rules.

    def spoken(self, count=1):
        """Ids, or a run of them, that an answer holds."""
        said = self.random.choice(self.answers)
        if len(said) < count or self.chance(0.25):
            return [self.random.choice(self.target) for _ in range(count)]
        at = self.random.randint(0, len(said) - count)
        return said[at : at + count]

    def some_ids(self, most):
        count = self.random.randint(1, most)
        return sorted({self.spoken()[0] for _ in range(count)}, key=lambda t: (t * 7919) % 1009)

    def phrases(self, most):
        found = {tuple(self.spoken(self.random.choice([1, 1, 2, 2, 3]))) for _ in
                 range(self.random.randint(1, most))}
        return [list(phrase) for phrase in sorted(found)]

    def bad_words(self):
        words = self.phrases(4)
        if self.chance(0.15) and self.reference.eos:
            words.append([self.reference.eos[0]])
        return words

    def real(self, low, high, digits=3):
        return round(self.random.uniform(low, high), digits)

    def eos_list(self):
        eos = list(self.reference.eos) if self.chance(0.85) else []
        ids = eos + self.some_ids(2)  # an id may be there twice
        return ids[0] if len(ids) == 1 and self.chance(0.5) else ids

    def forced_eos(self):
        eos = self.reference.eos or self.spoken()
        some = [self.random.choice(eos + self.spoken()) for _ in range(2)]
        return some if self.chance(0.05) else some[0]

    def bias(self):
        pairs = [[phrase, self.real(-8, 6)] for phrase in self.phrases(4)]
        return pairs + [[pairs[0][0], 1.5]] if self.chance(0.1) else pairs  # the last counts

    def edged(self, value, *edges):
        """A usual value, at times one at an edge."""
        return lambda: self.random.choice(edges) if self.chance(0.12) else value()

    # Options.

    def rules(self):
        """Each rule now and then: (name, probability, value)."""
        count = lambda low, high: lambda: self.random.randint(low, high)  # noqa: E731
        number = lambda low, high: lambda: self.real(low, high)  # noqa: E731
        yes = lambda: self.chance(0.85)  # noqa: E731
        return [
            ("min_new_tokens", 0.18, self.edged(count(1, 9), 0, 40)),
            ("min_length", 0.14, self.edged(count(1, 10), 0, 40)),
            ("repetition_penalty", 0.16, self.edged(number(0.6, 2), 1.0, 0.01, 30.0)),
            ("no_repeat_ngram_size", 0.16, self.edged(count(1, 4), 0, 30)),
            ("encoder_no_repeat_ngram_size", 0.12, self.edged(count(1, 3), 0, 30)),
            ("encoder_repetition_penalty", 0.12, self.edged(number(0.5, 2), 1.0, 0.01, 30.0)),
            ("bad_words_ids", 0.16, self.bad_words),
            ("suppress_tokens", 0.14, self.edged(lambda: self.some_ids(6), [])),
            ("begin_suppress_tokens", 0.14, self.edged(lambda: self.some_ids(4), [])),
            ("sequence_bias", 0.14, self.bias),
            ("forced_bos_token_id", 0.12, lambda: self.random.choice(self.target)),
            ("forced_eos_token_id", 0.14, self.forced_eos),
            ("decoder_start_token_id", 0.06, lambda: self.random.choice(self.target)),
            ("eos_token_id", 0.18, self.eos_list),
            ("exponential_decay_length_penalty", 0.12, lambda: [
                self.random.randint(0, 6), self.edged(number(0.7, 1.7), 1.0, 0.05, 9.0)()]),
            ("renormalize_logits", 0.14, yes),
            ("remove_invalid_values", 0.08, yes),
        ]

    def warpers(self):
        number = lambda low, high: lambda: self.real(low, high)  # noqa: E731
        small = lambda: self.real(0.001, 0.08, 4)  # noqa: E731
        return [
            ("temperature", 0.5, self.edged(number(0.4, 2), 1.0, 0.02, 50.0)),
            ("top_h", 0.2, self.edged(number(0.2, 1), 1.0, 0.001)),
            ("top_k", 0.55, lambda: self.random.choice([0, 1, 3, 8, 20, 100000])),
            ("top_p", 0.35, self.edged(number(0.2, 1), 1.0, 0.0)),
            ("min_p", 0.25, self.edged(number(0.001, 0.3), 0.0, 1.0)),
            ("typical_p", 0.25, self.edged(number(0.2, 0.99), 1.0, 0.001)),
            ("epsilon_cutoff", 0.2, self.edged(small, 0.0, 0.99)),
            ("eta_cutoff", 0.2, self.edged(small, 0.0, 0.99)),
        ]

    def options_of_mode(self, mode):
        if mode == BEAMS:
            beams = self.edged(lambda: self.random.randint(2, 6), 12)()
            options = {"num_beams": beams}
            if self.chance(0.6):
                options["num_return_sequences"] = self.random.randint(1, beams)
            if self.chance(0.65):
                options["length_penalty"] = self.random.choice(
                    [-20.0, -1.0, 0.0, 0.4, 0.6, 1.0, 1.7, 2.5, 20.0])
            if self.chance(0.65):
                options["early_stopping"] = self.random.choice([True, False, "never"])
            if self.reference.defaults.do_sample:
                options["do_sample"] = False
            return options
        default = (self.reference.defaults.num_beams or 1) == 1
        options = {} if default and self.chance(0.6) else {"num_beams": 1}
        if mode == GREEDY:
            if self.reference.defaults.do_sample or self.chance(0.1):
                options["do_sample"] = False
            if self.chance(0.06):
                options["length_penalty"] = 0.5  # beams alone heed it
            return options
        options.update(do_sample=True, seed=self.random.randrange(1 << 53))
        if self.chance(0.4):
            options["num_return_sequences"] = self.random.randint(2, 4)
        return self.sprinkle(options, self.warpers())

    def sprinkle(self, options, choices):
        for name, probability, value in choices:
            if self.chance(probability):
                options[name] = value()
        return options

    def set_lengths(self, options, mode, prefix_count):
        if self.reference.defaults.max_length and self.chance(0.06):
            return  # the model's own
        room = max(1, self.places - prefix_count)
        most = 4 if mode == SAMPLE else LONG if self.chance(0.03) else LONGEST
        most = min(most, room)
        new = most if mode != SAMPLE and self.chance(0.5) else self.random.randint(1, most)
        kind = self.random.random()
        if kind < 0.8:
            options["max_new_tokens"] = new
        if kind > 0.7:
            options["max_length"] = prefix_count + new

    def nulls(self, options):
        """Switches some of the model's own defaults off."""
        for name in OPTIONS:
            own = getattr(self.reference.defaults, name, None)
            if own not in (None, False) and name not in options and self.chance(0.12):
                if name not in ("decoder_start_token_id", "max_length", "num_beams"):
                    options[name] = None

    def prefix(self):
        if not self.reference.prefixes_work or not self.chance(0.22):
            return None
        prefix = [self.random.choice(self.target) for _ in range(self.random.randint(1, 4))]
        if self.reference.eos and self.chance(0.1):
            prefix[-1] = self.reference.eos[0]
        return prefix

    def options(self, mode, prefix):
        options = self.options_of_mode(mode)
        if not self.chance(0.08):
            self.sprinkle(options, self.rules())
        self.nulls(options)
        if prefix and self.chance(0.3):
            prefix.insert(0, self.reference.start_of(options))
        self.set_lengths(options, mode, len(self.reference.prefix_of(options, prefix)))
        options["logprobs"] = self.random.choice([0, 3, self.top, self.top])
        if mode == SAMPLE:
            options["logprobs"] = self.top
        if self.chance(0.06):
            options["output_attentions"] = True
        return options

    def generation(self, mode):
        """A body for /v1/generate, of one mode."""
        rows = self.some_rows()
        each = len(rows) > 1 and self.chance(0.3)
        prefixes = [self.prefix() for _ in rows]
        options = [self.options(mode, prefix) for prefix in prefixes]
        body = self.body(rows)
        if each:
            body["parameters"] = options
        else:
            body["parameters"], prefixes = options[0], [prefixes[0]] * len(rows)
        if all(prefixes):
            body["decoder_input_ids"] = prefixes
        return body

    def encoding(self, full=False):
        """A body for /v1/encode; `full`: of one row that fills the model's positions."""
        rows = [Row(self.source_ids(self.places))] if full else self.some_rows()
        body = self.body(rows)
        body["pooling"] = self.random.choice(["none", "none", "mean", "max", "cls", "last"])
        body["normalize"] = body["pooling"] != "none" and self.chance(0.5)
        body["output_attentions"] = not full and self.chance(0.4)
        body["encoding_format"] = "base64" if self.chance(0.2) else "float"
        return body

    def scoring(self):
        """A body for /v1/score."""
        rows = self.some_rows()
        most = max(1, min(160 if self.chance(0.1) else 12, self.places - 1))
        targets = [
            [self.random.choice(self.target) for _ in range(self.random.randint(1, most))]
            for _ in rows
        ]
        for target in targets:
            if self.reference.eos and self.chance(0.5):
                target[-1] = self.reference.eos[0]
        body = self.body(rows)
        body.update(target_ids=targets, logprobs=self.top)
        if self.chance(0.2):
            body["decoder_start_token_id"] = self.random.choice(self.target)
        if self.chance(0.4):
            body["output_attentions"] = True
        return body
