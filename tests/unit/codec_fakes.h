/* codec_fakes.h — a model of a few numbers, a tokenizer of digits and an engine that never runs,
 * for tests of src/http that need no forward pass. */
#ifndef TESTS_CODEC_FAKES_H
#define TESTS_CODEC_FAKES_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "serve/registry.h"

struct tokenizer {
    int unused;
};

/* "57" is 5 7 and the end token 2, which truncation keeps; '!' is what it cannot read. */
int tokenizer_encode(const struct tokenizer *tokenizer, const char *text, size_t bytes,
                     int32_t **ids, size_t *count, size_t *trailing, struct error *err)
{
    if (tokenizer_encode_target(tokenizer, text, bytes, ids, count, err) < 0)
        return -1;
    (*ids)[(*count)++] = 2;
    *trailing = 1;
    return 0;
}

int tokenizer_encode_target(const struct tokenizer *tokenizer, const char *text, size_t bytes,
                            int32_t **ids, size_t *count, struct error *err)
{
    (void)tokenizer;
    if (memchr(text, '!', bytes))
        return error_set(err, ERR_OUT_OF_RANGE, "a pattern gave up");
    *ids = mem_alloc(bytes + 1, sizeof **ids);
    if (!*ids)
        return error_set(err, ERR_NO_MEMORY, "no memory for ids");
    for (size_t i = 0; i < bytes; i++)
        (*ids)[i] = text[i] - '0';
    *count = bytes;
    return 0;
}

char *tokenizer_decode(const struct tokenizer *tokenizer, const int32_t *ids, size_t count,
                       bool skip_special)
{
    (void)tokenizer;
    char text[256] = "";
    for (size_t i = 0; i < count; i++)
        if (!skip_special || ids[i] != 2)
            snprintf(text + strlen(text), sizeof text - strlen(text), "%s%d", text[0] ? " " : "",
                     ids[i]);
    return mem_text(text);
}

/* V 10 → 8, D 2, 1 head, 2 + 1 layers, 6 positions; pad 0, end 2, start 1. */
static struct model fake_model = {
    .config = { .family = "transformer",
                .width = 2,
                .encoder = { .layers = 2, .heads = 1 },
                .decoder = { .layers = 1, .heads = 1 },
                .source_vocabulary = 10,
                .target_vocabulary = 8,
                .positions_max = 6,
                .pad_id = 0,
                .bos_id = -1,
                .eos_id = 2,
                .start_id = 1 },
    .parameter_count = 100,
    .mapped_bytes = 400,
};

static struct tokenizer fake_tokenizer;

static const struct limits fake_limits = {
    .body_bytes = 1000,
    .bodies_bytes = 1000000,
    .response_bytes = 2000,
    .answers_bytes = 1000000,
    .sequences = 3,
    .source_tokens = 8,
    .target_tokens = 5,
    .beams = 4,
    .return_sequences = 4,
    .top_logprobs = 3,
    .option_tokens = 6,
    .default_max_new_tokens = 4,
    .max_new_tokens = 5,
    .queue_sequences = 4,
    .request_timeout_ms = 60000,
};

static struct served_model fake_served(const char *name, struct tokenizer *tokenizer)
{
    struct served_model served = { .name = strdup(name),
                                   .model = &fake_model,
                                   .tokenizer = tokenizer,
                                   .created_unix = 1700000000 };
    options_init(&served.defaults);
    served.defaults.start_id = 1;
    served.defaults.pad_id = 0;
    served.defaults.eos_ids[0] = 2;
    served.defaults.eos_count = 1;
    return served;
}

#endif
