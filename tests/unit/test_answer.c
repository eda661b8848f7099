#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <jansson.h>
#include <math.h>

#include "../../src/http/answer.h"
#include "codec_fakes.h"

/* The search of a row: up to two sequences, none while it is not done. */
struct search {
    struct sequence sequences[2];
    size_t count;
};

bool search_done(const struct search *search)
{
    return search->count > 0;
}

size_t search_sequence_count(const struct search *search)
{
    assert_true(search_done(search));
    return search->count;
}

struct sequence search_sequence(const struct search *search, size_t index)
{
    return search->sequences[index];
}

void search_destroy(struct search **search)
{
    mem_free(*search);
    *search = NULL;
}

const char *finish_reason_name(enum finish_reason reason)
{
    return reason == FINISH_EOS ? "eos" : "length";
}

static struct served_model with_texts, without_texts;

static float *floats(size_t count, float first)
{
    float *values = mem_alloc(count, sizeof *values);
    for (size_t i = 0; i < count; i++)
        values[i] = first + (float)i;
    return values;
}

/* A DONE request of one row with two real tokens among three places. */
static struct job job_of(enum request_kind kind)
{
    struct job job = { .served = &with_texts, .request = request_create(kind, 1) };
    struct row *row = &job.request->rows[0];
    row->token_count = 2;
    row->sent_count = 3;
    return job;
}

/* Writes the answer, compares it with `expected` and frees the job. */
static void check_answer(struct job *job, const char *expected)
{
    struct buffer out;
    struct error err = { 0 };
    buffer_init(&out, 100000);
    assert_int_equal(answer_write(&out, job, &err), 0);
    assert_string_equal(out.data, expected);
    buffer_free(&out);
    job_clear(job);
}

static enum error_code refusal_of(struct job *job, size_t limit)
{
    struct buffer out;
    struct error err = { 0 };
    buffer_init(&out, limit);
    assert_int_equal(answer_write(&out, job, &err), -1);
    buffer_free(&out);
    job_clear(job);
    return err.code;
}

static void encoder_states_have_one_vector_a_place(void **state)
{
    (void)state;
    struct job job = job_of(REQUEST_ENCODE);
    float *states = floats(6, 0.5f);
    states[2] = states[3] = 0;
    job.request->rows[0].answer.embedding = states;
    check_answer(&job, "{\"object\":\"list\",\"model\":\"a\",\"dim\":2,\"data\":[{\"index\":0,"
                       "\"tokens\":2,\"embedding\":[[0.5,1.5],[0,0],[4.5,5.5]],"
                       "\"attentions\":null}],"
                       "\"usage\":{\"prompt_tokens\":2,\"total_tokens\":2}}");
}

static void a_pooled_vector_is_flat_and_extras_come_when_asked(void **state)
{
    (void)state;
    struct job job = job_of(REQUEST_ENCODE);
    struct row *row = &job.request->rows[0];
    job.request->pooling = POOLING_MEAN;
    row->answer.embedding = floats(2, 1);
    row->truncated = true;
    row->sent_count = 1;
    row->answer.encoder_attentions = floats(2, 0);
    row->sent_ids = mem_copy(((int32_t[]){ 5 }), 1, sizeof(int32_t));
    job.return_tokens = true;
    check_answer(&job, "{\"object\":\"list\",\"model\":\"a\",\"dim\":2,\"data\":[{\"index\":0,"
                       "\"tokens\":2,\"embedding\":[1,2],\"attentions\":[[[[0]]],[[[1]]]],"
                       "\"truncated\":true,\"token_ids\":[5]}],"
                       "\"usage\":{\"prompt_tokens\":2,\"total_tokens\":2}}");
}

static void base64_comes_with_its_shape(void **state)
{
    (void)state;
    struct job job = job_of(REQUEST_ENCODE);
    job.base64 = true;
    job.request->rows[0].sent_count = 1;
    job.request->rows[0].answer.embedding = floats(2, 1);
    check_answer(&job, "{\"object\":\"list\",\"model\":\"a\",\"dim\":2,\"data\":[{\"index\":0,"
                       "\"tokens\":2,\"embedding\":\"AACAPwAAAEA=\",\"shape\":[1,2],"
                       "\"attentions\":null}],"
                       "\"usage\":{\"prompt_tokens\":2,\"total_tokens\":2}}");
}

static const int32_t generated[] = { 5, 6, 2 };
static const float logprobs[] = { -0.5f, -0.25f, 0 };

static struct job generation(struct sequence sequence)
{
    struct job job = job_of(REQUEST_GENERATE);
    struct row *row = &job.request->rows[0];
    options_init(&row->options);
    row->prefix_count = 1;
    job.request->queued_ns = 1000000;
    row->taken_ns = 1100000;
    row->encoded_ns = 1700000;
    row->ended_ns = 4001000;
    row->answer.search = mem_alloc(1, sizeof *row->answer.search);
    *row->answer.search = (struct search){ .sequences = { sequence }, .count = 1 };
    return job;
}

static const struct sequence greedy = {
    .tokens = generated, .count = 3, .score = NAN, .logprob = -0.75f, .finish_reason = FINISH_EOS
};

#define GENERATION_HEAD "{\"object\":\"generation\",\"model\":\"a\",\"outputs\":[{\"index\":0,"
#define GENERATION_TAIL                                                                            \
    "\"usage\":{\"prompt_tokens\":2,\"completion_tokens\":3,\"total_tokens\":5},"                  \
    "\"timing\":{\"queue_ms\":0.100,\"encode_ms\":0.600,\"decode_ms\":2.301}}"

static void a_greedy_answer_has_no_score(void **state)
{
    (void)state;
    struct job job = generation(greedy);
    check_answer(&job, GENERATION_HEAD
                 "\"sequences\":[{\"token_ids\":[5,6,2],\"text\":\"5 6\",\"score\":null,"
                 "\"logprob\":-0.75,\"finish_reason\":\"eos\",\"token_logprobs\":null,"
                 "\"cross_attentions\":null}]}]," GENERATION_TAIL);
}

static void a_sampled_answer_tells_its_seed(void **state)
{
    (void)state;
    struct job job = generation(greedy);
    job.served = &without_texts;
    job.request->rows[0].options.do_sample = true;
    job.request->rows[0].options.seed = (UINT64_C(1) << 53) - 1;
    check_answer(&job, "{\"object\":\"generation\",\"model\":\"b\",\"outputs\":[{\"index\":0,"
                       "\"seed\":9007199254740991,"
                       "\"sequences\":[{\"token_ids\":[5,6,2],\"text\":null,\"score\":null,"
                       "\"logprob\":-0.75,\"finish_reason\":\"eos\",\"token_logprobs\":null,"
                       "\"cross_attentions\":null}]}]," GENERATION_TAIL);
}

static void beams_logprobs_and_attentions_are_written(void **state)
{
    (void)state;
    static const struct token_logprob top[] = { { 5, -0.5f }, { 4, -1 }, { 6, -0.25f },
                                                { -1, 0 },    { 2, 0 },  { -1, 0 } };
    struct sequence best = greedy;
    best.score = -0.25f;
    best.token_logprobs = logprobs;
    best.top_logprobs = top;
    struct job job = generation(best);
    struct row *row = &job.request->rows[0];
    row->options.num_beams = 2;
    row->options.logprobs = true;
    row->options.top_logprobs = 2;
    row->options.skip_special_tokens = false;
    row->sent_count = 1;
    row->answer.sequence_attentions = mem_alloc(1, sizeof(float *));
    row->answer.sequence_attentions[0] = floats(3, 1);
    check_answer(&job, GENERATION_HEAD
                 "\"sequences\":[{\"token_ids\":[5,6,2],\"text\":\"5 6 2\",\"score\":-0.25,"
                 "\"logprob\":-0.75,\"finish_reason\":\"eos\",\"token_logprobs\":[-0.5,-0.25,0],"
                 "\"top_logprobs\":[[{\"id\":5,\"logprob\":-0.5},{\"id\":4,\"logprob\":-1}],"
                 "[{\"id\":6,\"logprob\":-0.25}],[{\"id\":2,\"logprob\":0}]],"
                 "\"cross_attentions\":[[[[1],[2],[3]]]]}]}]," GENERATION_TAIL);
}

static void a_row_that_was_never_begun_has_no_sequences(void **state)
{
    (void)state;
    struct job job = job_of(REQUEST_GENERATE);
    options_init(&job.request->rows[0].options);
    job.request->queued_ns = 5;
    check_answer(&job, GENERATION_HEAD
                 "\"sequences\":[]}],"
                 "\"usage\":{\"prompt_tokens\":2,\"completion_tokens\":0,\"total_tokens\":2},"
                 "\"timing\":{\"queue_ms\":0.000,\"encode_ms\":0.000,\"decode_ms\":0.000}}");
}

static struct job scored(void)
{
    struct job job = job_of(REQUEST_SCORE);
    struct row *row = &job.request->rows[0];
    row->target_count = 2;
    row->sent_count = 1;
    row->answer.token_logprobs = floats(2, -1.5f);
    return job;
}

static void scores_are_summed(void **state)
{
    (void)state;
    struct job job = scored();
    check_answer(&job, "{\"object\":\"score\",\"model\":\"a\",\"outputs\":[{\"index\":0,"
                       "\"token_logprobs\":[-1.5,-0.5],\"logprob\":-2,\"decoder_attentions\":null,"
                       "\"cross_attentions\":null}],"
                       "\"usage\":{\"prompt_tokens\":2,\"target_tokens\":2,\"total_tokens\":4}}");
    job = scored();
    struct row_answer *answer = &job.request->rows[0].answer;
    job.request->top_logprobs = 1;
    answer->top_logprobs = mem_copy(((struct token_logprob[]){ { 3, -1 }, { 4, -2 } }), 2,
                                    sizeof(struct token_logprob));
    answer->decoder_attentions = floats(4, 0);
    answer->cross_attentions = floats(2, 7);
    check_answer(&job,
                 "{\"object\":\"score\",\"model\":\"a\",\"outputs\":[{\"index\":0,"
                 "\"token_logprobs\":[-1.5,-0.5],\"logprob\":-2,"
                 "\"top_logprobs\":[[{\"id\":3,\"logprob\":-1}],[{\"id\":4,\"logprob\":-2}]],"
                 "\"decoder_attentions\":[[[[0,1],[2,3]]]],\"cross_attentions\":[[[[7],[8]]]]}],"
                 "\"usage\":{\"prompt_tokens\":2,\"target_tokens\":2,\"total_tokens\":4}}");
}

static void a_value_that_is_no_number_fails_the_answer(void **state)
{
    (void)state;
    static const float bad[] = { NAN, INFINITY, -INFINITY };
    for (size_t i = 0; i < 3; i++) {
        struct job job = scored();
        job.request->rows[0].answer.token_logprobs[1] = bad[i];
        assert_int_equal(refusal_of(&job, 10000), ERR_NONFINITE);

        job = job_of(REQUEST_ENCODE);
        job.base64 = i == 1;
        job.request->rows[0].answer.embedding = floats(6, 0);
        job.request->rows[0].answer.embedding[5] = bad[i];
        assert_int_equal(refusal_of(&job, 10000), ERR_NONFINITE);

        struct sequence sequence = greedy;
        sequence.logprob = bad[i];
        job = generation(sequence);
        assert_int_equal(refusal_of(&job, 10000), ERR_NONFINITE);
    }
}

static void an_answer_has_a_limit_and_needs_memory(void **state)
{
    (void)state;
    struct job job = scored();
    assert_int_equal(refusal_of(&job, 100), ERR_OVER_LIMIT);
    for (long failures = 0;; failures++) {
        job = generation(greedy);
        struct buffer out;
        struct error err = { 0 };
        buffer_init(&out, 10000);
        mem_fail_after(failures);
        const int rc = answer_write(&out, &job, &err);
        mem_fail_after(-1);
        buffer_free(&out);
        job_clear(&job);
        if (rc == 0) {
            assert_true(failures >= 2);
            return;
        }
        assert_int_equal(err.code, ERR_NO_MEMORY);
    }
}

static void models_are_listed_with_what_they_take(void **state)
{
    (void)state;
    struct served_model models[] = { with_texts, without_texts };
    char *aliases[] = { "x", "y/z", NULL };
    models[0].aliases = aliases;
    const struct registry registry = { models, 2 };
    struct buffer out;
    buffer_init(&out, 10000);
    answer_models(&out, &registry, &fake_limits);
    json_t *list = json_loads(out.data, JSON_REJECT_DUPLICATES, NULL);
    buffer_free(&out);
    assert_string_equal(json_string_value(json_object_get(list, "object")), "list");
    const json_t *data = json_object_get(list, "data");
    assert_int_equal(json_array_size(data), 2);
    const json_t *first = json_array_get(data, 0);
    assert_string_equal(json_string_value(json_object_get(first, "id")), "a");
    const json_t *others = json_object_get(first, "aliases");
    assert_int_equal(json_array_size(others), 2);
    assert_string_equal(json_string_value(json_array_get(others, 1)), "y/z");
    others = json_object_get(json_array_get(data, 1), "aliases");
    assert_true(json_is_array(others) && json_array_size(others) == 0);
    assert_ptr_equal(registry_find(&registry, "y/z"), &models[0]);
    assert_null(registry_find(&registry, "z"));
    assert_string_equal(json_string_value(json_object_get(first, "family")), "transformer");
    assert_true(json_is_true(json_object_get(first, "tokenizer")));
    assert_true(json_is_false(json_object_get(json_array_get(data, 1), "tokenizer")));
    const json_t *sizes = json_object_get(first, "sizes");
    assert_int_equal(json_integer_value(json_object_get(sizes, "positions")), 6);
    assert_int_equal(json_integer_value(json_object_get(sizes, "dim")), 2);
    const json_t *limits = json_object_get(first, "limits");
    assert_int_equal(json_integer_value(json_object_get(limits, "beams")), 4);
    const json_t *options = json_object_get(first, "default_options");
    assert_int_equal(json_integer_value(json_object_get(options, "decoder_start_token_id")), 1);
    json_decref(list);
}

static void a_search_that_is_not_done_has_no_usage(void **state)
{
    (void)state;
    struct job job = job_of(REQUEST_GENERATE);
    job.request->rows[0].answer.search = mem_alloc(1, sizeof(struct search));
    const struct answer_usage usage = answer_usage(job.request);
    assert_int_equal(usage.prompt_tokens, 2);
    assert_int_equal(usage.output_tokens, 0);
    job_clear(&job);
}

int main(void)
{
    with_texts = fake_served("a", &fake_tokenizer);
    without_texts = fake_served("b", NULL);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(encoder_states_have_one_vector_a_place),
        cmocka_unit_test(a_pooled_vector_is_flat_and_extras_come_when_asked),
        cmocka_unit_test(base64_comes_with_its_shape),
        cmocka_unit_test(a_greedy_answer_has_no_score),
        cmocka_unit_test(a_sampled_answer_tells_its_seed),
        cmocka_unit_test(beams_logprobs_and_attentions_are_written),
        cmocka_unit_test(a_row_that_was_never_begun_has_no_sequences),
        cmocka_unit_test(a_search_that_is_not_done_has_no_usage),
        cmocka_unit_test(scores_are_summed),
        cmocka_unit_test(a_value_that_is_no_number_fails_the_answer),
        cmocka_unit_test(an_answer_has_a_limit_and_needs_memory),
        cmocka_unit_test(models_are_listed_with_what_they_take),
    };
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    free(with_texts.name);
    free(without_texts.name);
    return failed;
}
