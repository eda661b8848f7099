/* text_targets.h — the fuzzers of what clients and the operator write: requests, the file of the
 * configuration, the one of keys, and tokenizers with the texts they read. */
#ifndef TESTS_FUZZ_TEXT_TARGETS_H
#define TESTS_FUZZ_TEXT_TARGETS_H

#include "../../src/http/decode.h"
#include "app/configuration.h"
#include "base/mem.h"
#include "http/keys.h"
#include "serve/registry.h"
#include "targets.h"

enum { FUZZ_SOURCES = 100, FUZZ_TARGETS = 80 };

static const struct model_config fuzz_model_config = {
    .family = "transformer",
    .width = 2,
    .encoder = { .layers = 2, .heads = 1 },
    .decoder = { .layers = 1, .heads = 1 },
    .source_vocabulary = FUZZ_SOURCES,
    .target_vocabulary = FUZZ_TARGETS,
    .positions_max = 40,
    .pad_id = 0,
    .bos_id = -1,
    .eos_id = 2,
    .start_id = 1,
};

static const struct limits fuzz_limits = {
    .body_bytes = 65536,
    .bodies_bytes = 65536,
    .response_bytes = 1 << 20,
    .answers_bytes = 1 << 20,
    .sequences = 16,
    .source_tokens = 50,
    .target_tokens = 50,
    .beams = 8,
    .return_sequences = 16,
    .top_logprobs = 20,
    .option_tokens = 100,
    .default_max_new_tokens = 16,
    .max_new_tokens = 32,
    .queue_sequences = 64,
    .request_timeout_ms = 60000,
};

static const char fuzz_vocabulary_text[] =
    "{\"type\":\"pattern\",\"pattern\":\"\\\\w+|[^\\\\w\\\\s]\",\"lowercase\":true,"
    "\"source\":[\"<unk>\",\"<s>\",\"</s>\",\"a\",\"b\",\"the\",\".\"],"
    "\"source_begin\":[\"<s>\"],\"source_end\":[\"</s>\"],\"join\":\" \"}";

/* A model that reads texts, one that only encodes, and one of ids; their weights do not matter. */
static inline const struct registry *fuzz_registry(void)
{
    static struct model generates, encodes;
    static struct served_model models[3];
    static struct registry registry;
    struct error err = { 0 };
    if (registry.count)
        return &registry;
    fuzz_start();
    generates.config = encodes.config = fuzz_model_config;
    encodes.config.family = "bert";
    encodes.config.decoder = (struct stack_shape){ 0 };
    fuzz_write("vocab.json", (const uint8_t *)fuzz_vocabulary_text,
               sizeof fuzz_vocabulary_text - 1);
    static char names[3][2] = { "a", "b", "c" };
    for (size_t i = 0; i < 3; i++) {
        models[i].name = names[i];
        models[i].model = i == 1 ? &encodes : &generates;
        options_init(&models[i].defaults);
        models[i].defaults.start_id = 1;
        models[i].defaults.pad_id = 0;
        models[i].defaults.eos_ids[0] = 2;
        models[i].defaults.eos_count = 1;
    }
    assert(tokenizer_open(&models[0].tokenizer, fuzz_folder, &fuzz_model_config, &err) == 0);
    assert(models[0].tokenizer);
    registry = (struct registry){ models, 3 };
    return &registry;
}

static inline void fuzz_check_ids(const int32_t *ids, size_t count, size_t vocabulary)
{
    for (size_t i = 0; i < count; i++)
        assert(ids[i] >= 0 && (size_t)ids[i] < vocabulary);
}

/* What the engine relies on, since it checks nothing again. */
static inline void fuzz_check_request(const struct request *request)
{
    assert(request->row_count > 0 && request->row_count <= fuzz_limits.sequences);
    assert(request->deadline_ns > request->received_ns);
    for (size_t i = 0; i < request->row_count; i++) {
        const struct row *row = &request->rows[i];
        assert(row->token_count > 0 && row->token_count <= row->sent_count);
        assert(row->sent_count <= fuzz_limits.source_tokens);
        fuzz_check_ids(row->tokens, row->token_count, FUZZ_SOURCES);
        fuzz_check_ids(row->prefix, row->prefix_count, FUZZ_TARGETS);
        fuzz_check_ids(row->targets, row->target_count, FUZZ_TARGETS);
        for (size_t t = 0; t < row->token_count; t++)
            assert((size_t)row->places[t] < row->sent_count &&
                   (size_t)row->positions[t] < fuzz_model_config.positions_max);
    }
}

/* A body, led by a byte that chooses the route. */
static inline int fuzz_request(const uint8_t *bytes, size_t count)
{
    static const enum request_kind kinds[] = { REQUEST_ENCODE, REQUEST_GENERATE, REQUEST_SCORE };
    const struct decode_context context = { fuzz_registry(), &fuzz_limits, "fuzz", 1 };
    struct job job = { 0 };
    struct error err = { 0 };
    if (count == 0)
        return 0;
    if (decode_request(&job, kinds[bytes[0] % 3], (const char *)bytes + 1, count - 1, &context,
                       &err) < 0) {
        assert(err.code != ERR_NONE && err.message[0] && !job.request);
        return 0;
    }
    fuzz_check_request(job.request);
    job_clear(&job);
    return 0;
}

/* The file of the configuration. */
static inline int fuzz_settings(const uint8_t *bytes, size_t count)
{
    static char program[] = "seqd", option[] = "--config", path[256];
    char *const argv[] = { program, option, path, NULL }, *const environment[] = { NULL };
    struct configuration config;
    enum command command;
    struct error err = { 0 };
    fuzz_start();
    snprintf(path, sizeof path, "%s/config.json", fuzz_folder);
    fuzz_write("config.json", bytes, count);
    if (configuration_read(&config, &command, 3, argv, environment, &err) < 0)
        assert(err.code != ERR_NONE && err.message[0]);
    else
        assert(config.server.threads > 0 && config.limits.body_bytes > 0);
    configuration_free(&config);
    return 0;
}

/* What is behind the last blank or colon of a line that is no comment is a key, and the same key is
 * found for it; a byte more makes it none. */
static inline void fuzz_find_key(const struct keys *keys, const char *line, size_t length)
{
    char longer[KEY_BYTES_MAX + 1];
    while (length > 0 && strchr(" \t\r", line[length - 1]))
        length--;
    size_t start = length;
    while (start > 0 && !strchr(" \t\r:", line[start - 1]))
        start--;
    if (length == 0 || line[strspn(line, " \t\r")] == '#')
        return;
    const size_t count = length - start;
    const struct key *key = keys_find(keys, line + start, count);
    assert(count >= KEY_BYTES_MIN && count <= KEY_BYTES_MAX && key);
    assert(!key->label[0] || memmem(line, length, key->label, strlen(key->label)));
    memcpy(longer, line + start, count);
    longer[count] = '\n';
    assert(!keys_find(keys, longer, count + 1) && !keys_find(keys, longer, KEY_BYTES_MIN - 1));
}

/* The file of API keys. */
static inline int fuzz_keys(const uint8_t *bytes, size_t count)
{
    char path[256];
    struct keys *keys;
    struct error err = { 0 };
    fuzz_start();
    snprintf(path, sizeof path, "%s/config.json", fuzz_folder);
    fuzz_write("config.json", bytes, count);
    assert(chmod(path, 0600) == 0);
    if (keys_open(&keys, path, &err) < 0) {
        assert(!keys && err.code == ERR_CONFIG && strstr(err.message, path));
        return 0;
    }
    assert(keys_count(keys) > 0 && keys_count(keys) <= KEYS_MAX);
    char *text = mem_alloc(count + 1, 1), *rest = text;
    assert(text);
    memcpy(text, bytes, count);
    for (const char *line; (line = strsep(&rest, "\n"));)
        fuzz_find_key(keys, line, strlen(line));
    mem_free(text);
    keys_close(&keys);
    return 0;
}

static inline void fuzz_tokenize(const struct tokenizer *tokenizer, const char *text, size_t count)
{
    struct error err = { 0 };
    int32_t *ids = NULL;
    size_t id_count, trailing;
    if (tokenizer_encode(tokenizer, text, count, &ids, &id_count, &trailing, &err) == 0) {
        fuzz_check_ids(ids, id_count, FUZZ_SOURCES);
        assert(trailing <= id_count);
    }
    mem_free(ids);
    ids = NULL;
    if (tokenizer_encode_target(tokenizer, text, count, &ids, &id_count, &err) == 0) {
        fuzz_check_ids(ids, id_count, FUZZ_TARGETS);
        char *back = tokenizer_decode(tokenizer, ids, id_count, true);
        assert(back);
        mem_free(back);
    }
    mem_free(ids);
}

/* vocab.json, a form feed, and a text for it. */
static inline int fuzz_vocabulary(const uint8_t *bytes, size_t count)
{
    struct tokenizer *tokenizer;
    struct error err = { 0 };
    fuzz_start();
    fuzz_write_text("vocab.json", &bytes, &count);
    if (tokenizer_open(&tokenizer, fuzz_folder, &fuzz_model_config, &err) < 0)
        assert(err.code != ERR_NONE && err.message[0] && !tokenizer);
    if (tokenizer)
        fuzz_tokenize(tokenizer, (const char *)bytes, count);
    tokenizer_close(&tokenizer);
    return 0;
}

#endif
