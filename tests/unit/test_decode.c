#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "../../src/http/decode.h"
#include "base/clock.h"
#include "codec_fakes.h"

static struct served_model models[2];
static const struct registry one = { models, 1 }, two = { models, 2 };

static int decode_in(struct job *job, const struct registry *registry, enum request_kind kind,
                     const char *body, struct error *err)
{
    const struct decode_context context = {
        .registry = registry,
        .limits = &fake_limits,
        .request_id = "id-1",
        .received_ns = 7,
    };
    *job = (struct job){ 0 };
    *err = (struct error){ 0 };
    return decode_request(job, kind, body, strlen(body), &context, err);
}

/* Decodes what must be right. */
static struct job decode(enum request_kind kind, const char *body)
{
    struct job job;
    struct error err;
    if (decode_in(&job, &one, kind, body, &err) < 0)
        fail_msg("%s: %s", body, err.message);
    return job;
}

struct refusal {
    const char *body;
    enum error_code code;
    const char *param;
    const char *message; /* a part of it */
};

static void check_refusals(enum request_kind kind, const struct refusal *cases, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        struct job job;
        struct error err;
        const int rc = decode_in(&job, &one, kind, cases[i].body, &err);
        if (rc == 0 || err.code != cases[i].code || strcmp(err.param, cases[i].param) != 0 ||
            !strstr(err.message, cases[i].message))
            fail_msg("%s: rc %d, code %d, param \"%s\", message \"%s\"", cases[i].body, rc,
                     (int)err.code, err.param, err.message);
        assert_null(job.request);
    }
}

#define CHECK_REFUSALS(kind, cases) check_refusals(kind, cases, sizeof(cases) / sizeof *(cases))

static void what_is_wrong_with_the_input_is_named(void **state)
{
    (void)state;
    static const struct refusal cases[] = {
        { "[1", ERR_BAD_JSON, "", "line 1, column 2" },
        { "{\"input_ids\":[[5]],\n\"input_ids\":[[6]]}", ERR_BAD_JSON, "", "line 2" },
        { "[[5]]", ERR_WRONG_TYPE, "", "object" },
        { "{}", ERR_MISSING_FIELD, "input_ids", "needed" },
        { "{\"input_ids\":[[5]],\"inputs\":\"5\"}", ERR_UNSUPPORTED, "inputs", "not both" },
        { "{\"input_ids\":[[5]],\"colour\":1}", ERR_UNKNOWN_FIELD, "colour", "colour" },
        { "{\"input_ids\":[[5]],\"parameters\":{}}", ERR_UNKNOWN_FIELD, "parameters", "no field" },
        { "{\"input_ids\":[[5]],\"model\":\"x\"}", ERR_NO_MODEL, "model", "loaded: a" },
        { "{\"input_ids\":[[5]],\"model\":5}", ERR_WRONG_TYPE, "model", "string" },
        { "{\"input_ids\":5}", ERR_WRONG_TYPE, "input_ids", "an array" },
        { "{\"input_ids\":null}", ERR_WRONG_TYPE, "input_ids", "null" },
        { "{\"input_ids\":[]}", ERR_EMPTY_ROW, "input_ids", "no row" },
        { "{\"input_ids\":[[]]}", ERR_EMPTY_ROW, "input_ids[0]", "no token to attend to" },
        { "{\"input_ids\":[[5],[0,0]]}", ERR_EMPTY_ROW, "input_ids[1]", "no token" },
        { "{\"input_ids\":[[5],6]}", ERR_WRONG_TYPE, "input_ids[1]", "an array" },
        { "{\"input_ids\":[5,[6]]}", ERR_WRONG_TYPE, "input_ids[1]", "an integer" },
        { "{\"input_ids\":[[5.0]]}", ERR_WRONG_TYPE, "input_ids[0][0]", "a fraction" },
        { "{\"input_ids\":[[\"5\"]]}", ERR_WRONG_TYPE, "input_ids[0][0]", "a string" },
        { "{\"input_ids\":[[true]]}", ERR_WRONG_TYPE, "input_ids[0][0]", "true" },
        { "{\"input_ids\":[[null]]}", ERR_WRONG_TYPE, "input_ids[0][0]", "null" },
        { "{\"input_ids\":[[5],[6,10]]}", ERR_TOKEN_OUT_OF_RANGE, "input_ids[1][1]",
          "input_ids[1][1] is 10; this model's source vocabulary is 0..9" },
        { "{\"input_ids\":[6,10]}", ERR_TOKEN_OUT_OF_RANGE, "input_ids[1]", "is 10" },
        { "{\"input_ids\":[[-1]]}", ERR_TOKEN_OUT_OF_RANGE, "input_ids[0][0]", "is -1" },
        { "{\"input_ids\":[[4294967301]]}", ERR_TOKEN_OUT_OF_RANGE, "input_ids[0][0]",
          "4294967301" },
        { "{\"input_ids\":[[9223372036854775807]]}", ERR_TOKEN_OUT_OF_RANGE, "input_ids[0][0]",
          "" },
        { "{\"input_ids\":[[9223372036854775808]]}", ERR_BAD_JSON, "", "line 1" },
        { "{\"input_ids\":[[3],[3],[3],[3]]}", ERR_OVER_LIMIT, "input_ids",
          "limits.sequences is 3" },
        { "{\"input_ids\":[[3,3,3,3,3,3,3]]}", ERR_TOO_LONG, "input_ids[0]",
          "7 tokens long; this model has 6 positions" },
        { "{\"input_ids\":[[3,3,3,3,3,3,3,3,3]]}", ERR_OVER_LIMIT, "input_ids[0]",
          "9 tokens; limits.source_tokens is 8" },
        { "{\"inputs\":5}", ERR_WRONG_TYPE, "inputs", "a string or an array" },
        { "{\"inputs\":[\"5\",6]}", ERR_WRONG_TYPE, "inputs[1]", "a string" },
        { "{\"inputs\":[]}", ERR_EMPTY_ROW, "inputs", "no row" },
        { "{\"inputs\":[\"5\",\"!\"]}", ERR_OUT_OF_RANGE, "inputs[1]", "a pattern gave up" },
        { "{\"inputs\":\"333333\"}", ERR_TOO_LONG, "inputs", "7 tokens long" },
        { "{\"input_ids\":[[5]],\"truncate\":1}", ERR_WRONG_TYPE, "truncate", "true or false" },
        { "{\"input_ids\":[[5]],\"return_tokens\":\"yes\"}", ERR_WRONG_TYPE, "return_tokens", "" },
        { "{\"input_ids\":[[5]],\"timeout_ms\":0}", ERR_OUT_OF_RANGE, "timeout_ms", "1..60000" },
        { "{\"input_ids\":[[5]],\"timeout_ms\":60001}", ERR_OUT_OF_RANGE, "timeout_ms", "60001" },
    };
    CHECK_REFUSALS(REQUEST_ENCODE, cases);
}

static void a_mask_has_the_shape_of_its_rows(void **state)
{
    (void)state;
    static const struct refusal cases[] = {
        { "{\"input_ids\":[[5,6]],\"attention_mask\":[[1]]}", ERR_MASK_SHAPE, "attention_mask[0]",
          "has 1 values; input_ids[0] has 2" },
        { "{\"input_ids\":[[5],[6]],\"attention_mask\":[[1]]}", ERR_MASK_SHAPE, "attention_mask",
          "2 rows" },
        { "{\"input_ids\":[[5]],\"attention_mask\":[1]}", ERR_MASK_SHAPE, "attention_mask",
          "shape" },
        { "{\"input_ids\":[5],\"attention_mask\":[[1]]}", ERR_MASK_SHAPE, "attention_mask",
          "shape" },
        { "{\"input_ids\":[[5]],\"attention_mask\":[[2]]}", ERR_OUT_OF_RANGE,
          "attention_mask[0][0]", "0, 1, false or true" },
        { "{\"input_ids\":[[5]],\"attention_mask\":[[1.0]]}", ERR_OUT_OF_RANGE,
          "attention_mask[0][0]", "" },
        { "{\"input_ids\":[[5]],\"attention_mask\":1}", ERR_WRONG_TYPE, "attention_mask", "" },
        { "{\"inputs\":\"5\",\"attention_mask\":[[1,1]]}", ERR_MASK_SHAPE, "attention_mask", "" },
        { "{\"input_ids\":[[5],[5,6]],\"attention_mask\":[[1],[0,0]]}", ERR_EMPTY_ROW,
          "input_ids[1]", "input_ids[1] has no token to attend to" },
        { "{\"input_ids\":[[3,3,3,3,3,3,3]],\"attention_mask\":[[0,0,0,0,0,0,1]]}", ERR_TOO_LONG,
          "input_ids[0]", "7 tokens long" },
    };
    CHECK_REFUSALS(REQUEST_ENCODE, cases);
}

static void check_row(const struct row *row, size_t sent_count, const char *tokens,
                      const char *places)
{
    assert_int_equal(row->sent_count, sent_count);
    assert_int_equal(row->token_count, strlen(tokens));
    for (size_t i = 0; i < row->token_count; i++) {
        assert_int_equal(row->tokens[i], tokens[i] - '0');
        assert_int_equal(row->places[i], places[i] - '0');
    }
}

static void only_real_tokens_are_packed_and_keep_their_places(void **state)
{
    (void)state;
    static const struct {
        const char *body;
        size_t sent_count;
        const char *tokens, *places;
    } cases[] = {
        { "{\"input_ids\":[[5,6,2]]}", 3, "562", "012" },
        { "{\"input_ids\":[5,6,2]}", 3, "562", "012" },
        { "{\"input_ids\":[[5,0,6,0,0]]}", 5, "506", "012" },
        { "{\"input_ids\":[[0,0,5,6]],\"attention_mask\":[[0,0,1,1]]}", 4, "56", "23" },
        { "{\"input_ids\":[[5,6,7]],\"attention_mask\":[[true,false,1]]}", 3, "57", "02" },
        { "{\"input_ids\":[[5,0,0]],\"attention_mask\":[[1,1,0]]}", 3, "50", "01" },
        { "{\"input_ids\":[3,3,3,3,3,3,0,0]}", 8, "333333", "012345" },
        { "{\"inputs\":\"57\"}", 3, "572", "012" },
        { "{\"inputs\":\"50\"}", 3, "502", "012" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct job job = decode(REQUEST_ENCODE, cases[i].body);
        assert_int_equal(job.request->row_count, 1);
        check_row(&job.request->rows[0], cases[i].sent_count, cases[i].tokens, cases[i].places);
        assert_false(job.request->rows[0].truncated);
        job_clear(&job);
    }
}

static void padding_at_the_end_is_kept_when_it_also_ends_sequences(void **state)
{
    (void)state;
    models[0].defaults.eos_ids[0] = 0;
    struct job job = decode(REQUEST_ENCODE, "{\"input_ids\":[[5,0,0]]}");
    models[0].defaults.eos_ids[0] = 2;
    check_row(&job.request->rows[0], 3, "500", "012");
    job_clear(&job);
}

static void truncation_cuts_on_the_right_and_keeps_the_end_token(void **state)
{
    (void)state;
    static const struct {
        const char *body, *tokens;
        bool truncated;
    } cases[] = {
        { "{\"truncate\":true,\"input_ids\":[[3,4,5,6,7,8,9]]}", "345678", true },
        { "{\"truncate\":true,\"input_ids\":[[3,4,5,6,7,8,2]]}", "345672", true },
        { "{\"truncate\":true,\"input_ids\":[[3,4,5,6,7,8,9,9,9,2,0,0]]}", "345672", true },
        { "{\"truncate\":true,\"input_ids\":[[3,4,5]]}", "345", false },
        { "{\"truncate\":true,\"inputs\":\"3456789\"}", "345672", true },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct job job = decode(REQUEST_ENCODE, cases[i].body);
        check_row(&job.request->rows[0], strlen(cases[i].tokens), cases[i].tokens, "012345");
        assert_int_equal(job.request->rows[0].truncated, cases[i].truncated);
        job_clear(&job);
    }
    struct job padded = decode(REQUEST_ENCODE, "{\"truncate\":true,\"input_ids\":"
                                               "[[3,4,5,6,7,2,0,0,0,0]]}");
    check_row(&padded.request->rows[0], 8, "345672", "012345");
    assert_false(padded.request->rows[0].truncated);
    job_clear(&padded);
    static const struct refusal refusals[] = {
        { "{\"truncate\":true,\"input_ids\":[[3,3,3,3,3,3,3]],"
          "\"attention_mask\":[[0,0,0,0,0,0,1]]}",
          ERR_EMPTY_ROW, "input_ids[0]", "no token" },
    };
    CHECK_REFUSALS(REQUEST_ENCODE, refusals);
}

static void sent_ids_are_kept_also_where_they_are_masked(void **state)
{
    (void)state;
    struct job job = decode(REQUEST_ENCODE, "{\"return_tokens\":true,\"input_ids\":[[5,0],[6]]}");
    assert_true(job.return_tokens);
    assert_int_equal(job.request->rows[0].sent_count, 2);
    assert_int_equal(job.request->rows[0].sent_ids[1], 0);
    assert_int_equal(job.request->rows[1].sent_ids[0], 6);
    job_clear(&job);
}

static void a_model_must_be_named_when_there_are_several(void **state)
{
    (void)state;
    struct job job;
    struct error err;
    assert_int_equal(decode_in(&job, &two, REQUEST_ENCODE, "{\"input_ids\":[5]}", &err), -1);
    assert_int_equal(err.code, ERR_MISSING_FIELD);
    assert_string_equal(err.param, "model");
    assert_non_null(strstr(err.message, "a, b"));

    assert_int_equal(
        decode_in(&job, &two, REQUEST_ENCODE, "{\"model\":\"b\",\"inputs\":\"5\"}", &err), -1);
    assert_int_equal(err.code, ERR_UNSUPPORTED);
    assert_non_null(strstr(err.message, "\"b\" has no tokenizer"));
    assert_ptr_equal(job.served, &models[1]);
}

static void encode_options_are_checked_and_kept(void **state)
{
    (void)state;
    static const struct refusal cases[] = {
        { "{\"input_ids\":[5],\"pooling\":\"sum\"}", ERR_OUT_OF_RANGE, "pooling",
          "none, mean, max, cls, last" },
        { "{\"input_ids\":[5],\"pooling\":null}", ERR_WRONG_TYPE, "pooling", "" },
        { "{\"input_ids\":[5],\"normalize\":true}", ERR_UNSUPPORTED, "normalize", "" },
        { "{\"input_ids\":[5],\"encoding_format\":\"hex\"}", ERR_OUT_OF_RANGE, "encoding_format",
          "float, base64" },
        { "{\"input_ids\":[[3,3,3,3,3,3],[3,3,3,3,3,3],[3,3,3,3,3,3]],\"output_attentions\":true}",
          ERR_OVER_LIMIT, "", "3024 bytes; limits.response_bytes is 2000" },
    };
    CHECK_REFUSALS(REQUEST_ENCODE, cases);
    struct job job = decode(REQUEST_ENCODE, "{\"input_ids\":[5],\"pooling\":\"last\","
                                            "\"normalize\":true,\"encoding_format\":\"base64\","
                                            "\"output_attentions\":true,\"timeout_ms\":5}");
    assert_int_equal(job.request->pooling, POOLING_LAST);
    assert_true(job.request->normalize && job.request->output_attentions && job.base64);
    assert_int_equal(job.request->deadline_ns, 7 + 5 * NS_PER_MS);
    assert_string_equal(job.request->id, "id-1");
    job_clear(&job);
}

static void generate_options_are_checked(void **state)
{
    (void)state;
    static const struct refusal cases[] = {
        { "{\"input_ids\":[5],\"stream\":true}", ERR_UNSUPPORTED, "stream", "stream" },
        { "{\"input_ids\":[5],\"parameters\":5}", ERR_WRONG_TYPE, "parameters", "object" },
        { "{\"input_ids\":[5],\"parameters\":[]}", ERR_OUT_OF_RANGE, "parameters",
          "0 objects; the request has 1" },
        { "{\"input_ids\":[5],\"parameters\":[5]}", ERR_WRONG_TYPE, "parameters", "parameters[0]" },
        { "{\"input_ids\":[5],\"parameters\":{\"beams\":2}}", ERR_UNKNOWN_FIELD, "parameters.beams",
          "beams" },
        { "{\"input_ids\":[[5],[5]],\"parameters\":[{},{\"num_beams\":true}]}", ERR_WRONG_TYPE,
          "parameters[1].num_beams", "num_beams" },
        { "{\"input_ids\":[[5],[5]],\"parameters\":[{}]}", ERR_OUT_OF_RANGE, "parameters",
          "1 objects; the request has 2 rows" },
        { "{\"input_ids\":[[5],[5]],\"parameters\":[{},{\"top_k\":-1}]}", ERR_OUT_OF_RANGE,
          "parameters[1].top_k", "top_k is -1" },
        { "{\"input_ids\":[[5],[5]],\"parameters\":[{},{\"bad_words_ids\":[[3,8]]}]}",
          ERR_TOKEN_OUT_OF_RANGE, "parameters[1].bad_words_ids[0][1]", "vocabulary is 0..7" },
        { "{\"input_ids\":[5],\"parameters\":{\"suppress_tokens\":[1,2,3,4,5,6,7]}}",
          ERR_OVER_LIMIT, "parameters.suppress_tokens", "limits.option_tokens is 6" },
        { "{\"input_ids\":[5],\"parameters\":{\"num_beams\":5}}", ERR_OVER_LIMIT,
          "parameters.num_beams", "limits.beams" },
        { "{\"input_ids\":[5],\"parameters\":{\"max_new_tokens\":6}}", ERR_OUT_OF_RANGE,
          "parameters.max_new_tokens", "positions" },
        { "{\"input_ids\":[5],\"parameters\":{\"decoder_start_token_id\":8}}",
          ERR_TOKEN_OUT_OF_RANGE, "parameters.decoder_start_token_id", "8" },
        { "{\"input_ids\":[5],\"decoder_input_ids\":[[8]]}", ERR_TOKEN_OUT_OF_RANGE,
          "decoder_input_ids[0][0]", "target vocabulary is 0..7" },
        { "{\"input_ids\":[5],\"decoder_input_ids\":[[3],[3]]}", ERR_OUT_OF_RANGE,
          "decoder_input_ids", "2 rows; the request has 1" },
        { "{\"input_ids\":[5],\"decoder_input_ids\":[3,3,3,3,3,3]}", ERR_OVER_LIMIT,
          "decoder_input_ids", "limits.target_tokens is 5" },
        { "{\"input_ids\":[5],\"decoder_input_ids\":[3,3,3,3,3]}", ERR_TOO_LONG,
          "decoder_input_ids", "6 positions" },
        { "{\"input_ids\":[[5],[5],[5]],\"parameters\":{\"logprobs\":3,\"num_beams\":4,"
          "\"num_return_sequences\":4}}",
          ERR_OVER_LIMIT, "", "limits.response_bytes" },
    };
    CHECK_REFUSALS(REQUEST_GENERATE, cases);
}

static void the_start_goes_in_front_unless_the_row_begins_with_it(void **state)
{
    (void)state;
    struct job job = decode(REQUEST_GENERATE, "{\"input_ids\":[[5],[5],[5]],"
                                              "\"decoder_input_ids\":[[1,3],[3],[]],"
                                              "\"stream\":false,\"partial\":true}");
    static const int32_t expected[3][2] = { { 1, 3 }, { 1, 3 }, { 1, 0 } };
    static const size_t counts[] = { 2, 2, 1 };
    for (size_t i = 0; i < 3; i++) {
        const struct row *row = &job.request->rows[i];
        assert_int_equal(row->prefix_count, counts[i]);
        assert_memory_equal(row->prefix, expected[i], counts[i] * sizeof(int32_t));
        assert_int_equal(row->options.max_length, row->prefix_count + row->options.max_new_tokens);
    }
    assert_true(job.request->partial);
    job_clear(&job);
}

static void each_row_may_have_its_own_options_and_gets_its_own_seed(void **state)
{
    (void)state;
    struct job job =
        decode(REQUEST_GENERATE, "{\"input_ids\":[[5],[5]],\"parameters\":[{\"max_new_tokens\":3},"
                                 "{\"decoder_start_token_id\":4}]}");
    assert_int_equal(job.request->rows[0].options.max_new_tokens, 3);
    assert_int_equal(job.request->rows[1].options.max_new_tokens, 4);
    assert_int_equal(job.request->rows[0].prefix[0], 1);
    assert_int_equal(job.request->rows[1].prefix[0], 4);
    job_clear(&job);

    job = decode(REQUEST_GENERATE, "{\"input_ids\":[[5],[5]],\"parameters\":{\"do_sample\":true}}");
    const uint64_t seeds[] = { job.request->rows[0].options.seed,
                               job.request->rows[1].options.seed };
    assert_int_not_equal(seeds[0], seeds[1]);
    assert_true(seeds[0] < UINT64_C(1) << 53 && seeds[1] < UINT64_C(1) << 53);
    job_clear(&job);
}

static void rows_share_the_lists_of_one_object_and_have_their_own_of_an_array(void **state)
{
    (void)state;
    struct job job = decode(REQUEST_GENERATE, "{\"input_ids\":[[5],[5]],\"parameters\":"
                                              "{\"bad_words_ids\":[[5,3]]}}");
    const struct row *rows = job.request->rows;
    assert_non_null(rows[0].options.lists[LIST_BAD_WORDS]);
    assert_ptr_equal(rows[0].options.lists[LIST_BAD_WORDS], rows[1].options.lists[LIST_BAD_WORDS]);
    job_clear(&job);

    job = decode(REQUEST_GENERATE,
                 "{\"input_ids\":[[5],[5]],\"parameters\":[{\"bad_words_ids\":[[5,3]],"
                 "\"output_attentions\":true,\"logprobs\":2},{\"num_return_sequences\":2,"
                 "\"do_sample\":true,\"seed\":7}]}");
    rows = job.request->rows;
    assert_non_null(rows[0].options.lists[LIST_BAD_WORDS]);
    assert_null(rows[1].options.lists[LIST_BAD_WORDS]);
    assert_true(rows[0].options.output_attentions && !rows[1].options.output_attentions);
    assert_true(rows[0].options.logprobs && !rows[1].options.logprobs);
    assert_int_equal(rows[1].options.num_return_sequences, 2);
    assert_int_equal(rows[1].options.seed, 7);
    job_clear(&job);
}

static void null_switches_a_models_list_off(void **state)
{
    (void)state;
    struct error err = { 0 };
    struct value five = { .kind = VALUE_INT, .integer = 5 };
    const struct value list = { .kind = VALUE_LIST, .items = &five, .count = 1 };
    const struct option_limits limits = { .vocabulary = 8, .option_tokens_max = 8 };
    assert_int_equal(options_set(&models[0].defaults, "suppress_tokens", &list, &limits, "", &err),
                     0);
    struct job job = decode(REQUEST_GENERATE, "{\"input_ids\":[[5],[5]],\"parameters\":[{},"
                                              "{\"suppress_tokens\":null}]}");
    assert_ptr_equal(job.request->rows[0].options.lists[LIST_SUPPRESS],
                     models[0].defaults.lists[LIST_SUPPRESS]);
    assert_null(job.request->rows[1].options.lists[LIST_SUPPRESS]);
    job_clear(&job);
    options_clear(&models[0].defaults);
}

static void score_targets_are_checked(void **state)
{
    (void)state;
    static const struct refusal cases[] = {
        { "{\"input_ids\":[5]}", ERR_MISSING_FIELD, "target_ids", "needed" },
        { "{\"input_ids\":[5],\"target_ids\":[3],\"targets\":\"3\"}", ERR_UNSUPPORTED, "targets",
          "not both" },
        { "{\"input_ids\":[5],\"target_ids\":[[3],[3]]}", ERR_OUT_OF_RANGE, "target_ids",
          "2 rows; the request has 1" },
        { "{\"input_ids\":[5],\"target_ids\":[[]]}", ERR_EMPTY_ROW, "target_ids[0]", "no token" },
        { "{\"input_ids\":[5],\"target_ids\":[8]}", ERR_TOKEN_OUT_OF_RANGE, "target_ids[0]",
          "target vocabulary is 0..7" },
        { "{\"input_ids\":[5],\"target_ids\":[3,3,3,3,3,3]}", ERR_OVER_LIMIT, "target_ids",
          "limits.target_tokens is 5" },
        { "{\"input_ids\":[5],\"target_ids\":[3],\"logprobs\":4}", ERR_OVER_LIMIT, "logprobs",
          "limits.top_logprobs is 3" },
        { "{\"input_ids\":[5],\"target_ids\":[3],\"logprobs\":-1}", ERR_OUT_OF_RANGE, "logprobs",
          "" },
        { "{\"input_ids\":[5],\"target_ids\":[3],\"decoder_start_token_id\":8}", ERR_OUT_OF_RANGE,
          "decoder_start_token_id", "0..7" },
        { "{\"input_ids\":[5],\"target_ids\":[3],\"parameters\":{}}", ERR_UNKNOWN_FIELD,
          "parameters", "" },
    };
    CHECK_REFUSALS(REQUEST_SCORE, cases);
    struct job job = decode(REQUEST_SCORE, "{\"inputs\":\"5\",\"targets\":[\"34\"],\"logprobs\":2,"
                                           "\"decoder_start_token_id\":7}");
    const struct row *row = &job.request->rows[0];
    assert_memory_equal(row->targets, ((int32_t[]){ 3, 4, 2 }), 3 * sizeof(int32_t));
    assert_int_equal(row->target_count, 3);
    assert_int_equal(row->prefix_count, 1);
    assert_int_equal(row->prefix[0], 7);
    assert_int_equal(job.request->top_logprobs, 2);
    job_clear(&job);
}

static void no_failed_allocation_leaks(void **state)
{
    (void)state;
    static const struct {
        enum request_kind kind;
        const char *body;
    } cases[] = {
        { REQUEST_ENCODE, "{\"inputs\":[\"5\",\"6\"],\"return_tokens\":true}" },
        { REQUEST_GENERATE, "{\"input_ids\":[[5],[6]],\"decoder_input_ids\":[[3],[4]],"
                            "\"parameters\":{\"eos_token_id\":[2,3],\"bad_words_ids\":[[5,3]]}}" },
        { REQUEST_GENERATE, "{\"input_ids\":[[5],[6]],\"parameters\":["
                            "{\"suppress_tokens\":[5]},{\"sequence_bias\":[[[5,3],1.5]]}]}" },
        { REQUEST_SCORE, "{\"input_ids\":[[5]],\"targets\":\"34\"}" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        long failures = 0;
        for (;; failures++) {
            struct job job;
            struct error err;
            mem_fail_after(failures);
            const int rc = decode_in(&job, &one, cases[i].kind, cases[i].body, &err);
            mem_fail_after(-1);
            if (rc == 0) {
                job_clear(&job);
                break;
            }
            assert_null(job.request);
            assert_int_not_equal(err.code, ERR_NONE);
        }
        assert_true(failures > 5);
    }
}

int main(void)
{
    models[0] = fake_served("a", &fake_tokenizer);
    models[1] = fake_served("b", NULL);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_wrong_with_the_input_is_named),
        cmocka_unit_test(a_mask_has_the_shape_of_its_rows),
        cmocka_unit_test(only_real_tokens_are_packed_and_keep_their_places),
        cmocka_unit_test(padding_at_the_end_is_kept_when_it_also_ends_sequences),
        cmocka_unit_test(truncation_cuts_on_the_right_and_keeps_the_end_token),
        cmocka_unit_test(sent_ids_are_kept_also_where_they_are_masked),
        cmocka_unit_test(a_model_must_be_named_when_there_are_several),
        cmocka_unit_test(encode_options_are_checked_and_kept),
        cmocka_unit_test(generate_options_are_checked),
        cmocka_unit_test(the_start_goes_in_front_unless_the_row_begins_with_it),
        cmocka_unit_test(each_row_may_have_its_own_options_and_gets_its_own_seed),
        cmocka_unit_test(rows_share_the_lists_of_one_object_and_have_their_own_of_an_array),
        cmocka_unit_test(null_switches_a_models_list_off),
        cmocka_unit_test(score_targets_are_checked),
        cmocka_unit_test(no_failed_allocation_leaks),
    };
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    for (size_t i = 0; i < 2; i++)
        free(models[i].name);
    return failed;
}
