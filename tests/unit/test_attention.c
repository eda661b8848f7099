/* Attention of rows and of single queries against plain double loops: all kinds of scores, widths,
 * relative positions, masked tokens, and bits that do not depend on company. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "../../src/model/attention.h"

enum { H = 3, WIDTH_MAX = 65, S_MAX = 61, R = 9, BUCKETS = 5 };
static const char *const isas[] = { "portable", "avx2", "avx512", "neon" };

/* A sublayer, and S tokens. */
struct sample {
    struct kernels kernels;
    struct model model;
    struct stack_shape shape;
    struct attention_weights weights;
    uint16_t buckets[2 * R + 1];
    float relative[H * BUCKETS], score_weight[H * WIDTH_MAX];
    float q[S_MAX * H * WIDTH_MAX], k[S_MAX * H * WIDTH_MAX], v[S_MAX * H * WIDTH_MAX];
    bool relative_used;
};

static float number(void)
{
    return (float)rand() / (float)RAND_MAX * 2.0f - 1.0f;
}

static void sample_fill(struct sample *s, enum attention_score score, size_t K, size_t W,
                        bool relative)
{
    struct model_config *c = &s->model.config;
    s->shape = (struct stack_shape){ 1, H, K, W, 1 };
    c->attention_score = score;
    c->attention_temperature = 0.3f;
    c->relative_buckets = BUCKETS;
    c->relative_distance = R;
    s->relative_used = relative;
    s->weights.score_weight = s->score_weight;
    s->weights.relative = relative ? s->relative : NULL;
    for (size_t i = 0; i < 2 * R + 1; i++)
        s->buckets[i] = (uint16_t)(i * 7 % BUCKETS);
    for (size_t i = 0; i < H * BUCKETS; i++)
        s->relative[i] = number();
    for (size_t i = 0; i < H * WIDTH_MAX; i++)
        s->score_weight[i] = number();
    for (size_t i = 0; i < S_MAX * H * WIDTH_MAX; i++) {
        s->q[i] = number();
        s->k[i] = number();
        s->v[i] = number();
    }
    attention_prepare(c, &s->shape, s->q, S_MAX);
    attention_prepare(c, &s->shape, s->k, S_MAX);
}

static struct attention sample_attention(const struct sample *s)
{
    return (struct attention){ &s->weights, &s->shape, s->relative_used ? s->buckets : NULL };
}

static struct pass sample_pass(const struct sample *s)
{
    return (struct pass){ .model = &s->model, .kernels = &s->kernels };
}

static double score(const struct sample *s, size_t h, size_t query, size_t key, ptrdiff_t distance)
{
    const size_t K = s->shape.key_width;
    const float *q = s->q + (query * H + h) * K, *k = s->k + (key * H + h) * K;
    const enum attention_score kind = s->model.config.attention_score;
    double sum = 0.0;
    for (size_t i = 0; i < K; i++)
        sum += kind == SCORE_ADDITIVE
                   ? (double)s->score_weight[h * K + i] * tanh((double)q[i] + (double)k[i])
                   : (double)q[i] * (double)k[i];
    if (kind == SCORE_SCALED_DOT)
        sum /= sqrt((double)K);
    if (kind == SCORE_COSINE)
        sum /= 0.3f;
    distance = distance < -R ? -R : distance > R ? R : distance;
    if (s->relative_used)
        sum += (double)s->relative[h * BUCKETS + s->buckets[R + distance]];
    return sum;
}

/* Token `query` at `place` attends to tokens keys[j] at places[j], or at j if that is NULL. */
struct expected {
    size_t query, place, count;
    const int32_t *keys, *places;
};

/* out (W) and weights (count) of head h as plain loops have them. */
static void attend(const struct sample *s, size_t h, const struct expected *e, double *out,
                   double *weights)
{
    const size_t W = s->shape.value_width;
    double sum = 0.0;
    for (size_t j = 0; j < e->count; j++) {
        const ptrdiff_t place = e->places ? e->places[j] : (ptrdiff_t)j;
        weights[j] = exp(score(s, h, e->query, (size_t)e->keys[j], place - (ptrdiff_t)e->place));
        sum += weights[j];
    }
    memset(out, 0, W * sizeof *out);
    for (size_t j = 0; j < e->count; j++) {
        weights[j] /= sum;
        for (size_t i = 0; i < W; i++)
            out[i] += weights[j] * (double)s->v[((size_t)e->keys[j] * H + h) * W + i];
    }
}

static void assert_near(double expected, float got)
{
    if (!(fabs(expected - (double)got) <= 1e-5))
        fail_msg("%.9g instead of %.9g", (double)got, expected);
}

/* Calls `check` for every kernel set, kind of score, some widths, and with and without relative
 * positions. */
static void for_every_sample(void (*check)(struct sample *s))
{
    static const size_t widths[][2] = { { 8, 8 }, { 17, 5 }, { 64, 64 }, { 1, 65 } };
    struct sample *s = calloc(1, sizeof *s);
    assert_non_null(s);
    for (size_t isa = 0; isa < sizeof isas / sizeof *isas; isa++) {
        struct error err = { 0 };
        if (kernels_init(&s->kernels, isas[isa], "own", &err) < 0)
            continue;
        for (enum attention_score kind = SCORE_SCALED_DOT; kind <= SCORE_ADDITIVE; kind++)
            for (size_t i = 0; i < sizeof widths / sizeof *widths; i++)
                for (unsigned relative = 0; relative < 2; relative++) {
                    sample_fill(s, kind, widths[i][0], widths[i][1], relative);
                    check(s);
                }
    }
    free(s);
}

static void *scratch_take(const struct stack_shape *shape, size_t keys)
{
    const size_t bytes = attention_scratch_bytes(shape, keys);
    void *scratch = aligned_alloc(64, bytes);
    assert_non_null(scratch);
    memset(scratch, 0xff, bytes); /* NaN */
    return scratch;
}

/* The first S tokens as a row, its queries in two parts and its heads in two, by turns. */
static void run_row(const struct sample *s, size_t S, size_t cut, struct attention_row row)
{
    const struct pass pass = sample_pass(s);
    const struct attention attention = sample_attention(s);
    float *out = row.out;
    void *scratch = scratch_take(&s->shape, S);
    for (size_t part = 0; part < 4; part++) {
        row.first = part % 2 ? cut : 0;
        row.end = part % 2 ? S : cut;
        row.out = out + row.first * H * s->shape.value_width;
        attention_row(&pass, &attention, &row,
                      part < 2 ? (struct heads){ 1, H } : (struct heads){ 0, 1 }, scratch);
    }
    free(scratch);
}

/* Places with gaps or not. */
static void check_row(const struct sample *s, size_t S, const int32_t *places)
{
    static float out[S_MAX * H * WIDTH_MAX], cut_out[S_MAX * H * WIDTH_MAX];
    static float weights[H * 2 * S_MAX * 2 * S_MAX];
    static double expected[WIDTH_MAX], expected_weights[S_MAX];
    const size_t W = s->shape.value_width, sent = (size_t)places[S - 1] + 1;
    int32_t keys[S_MAX];
    struct attention_row row = {
        .q = s->q,
        .k = s->k,
        .v = s->v,
        .S = S,
        .places = places,
        .out = cut_out,
    };
    run_row(s, S, S / 3, row);
    memset(weights, 0, sizeof weights);
    row.out = out;
    row.record = (struct attention_record){ weights, sent, sent, places };
    run_row(s, S, S, row);
    assert_memory_equal(out, cut_out, S * H * W * sizeof *out);
    for (size_t i = 0; i < S; i++)
        keys[i] = (int32_t)i;
    for (size_t i = 0; i < S; i++)
        for (size_t h = 0; h < H; h++) {
            const struct expected e = { i, (size_t)places[i], S, keys, places };
            attend(s, h, &e, expected, expected_weights);
            for (size_t j = 0; j < W; j++)
                assert_near(expected[j], out[(i * H + h) * W + j]);
            for (size_t j = 0; j < S; j++)
                assert_near(expected_weights[j],
                            weights[(h * sent + e.place) * sent + (size_t)places[j]]);
        }
}

static void check_rows(struct sample *s)
{
    static const size_t lengths[] = { 1, 2, 24, 25, S_MAX };
    int32_t consecutive[S_MAX], gaps[S_MAX];
    for (size_t i = 0; i < S_MAX; i++) {
        consecutive[i] = (int32_t)i + 4;
        gaps[i] = (int32_t)(i + i / 5);
    }
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        check_row(s, lengths[i], consecutive);
        check_row(s, lengths[i], gaps);
    }
}

static void a_rows_tokens_attend_to_each_other(void **state)
{
    (void)state;
    for_every_sample(check_rows);
}

/* Every token of the sample in a cache of its own order; order[i]: the token in place i. */
static struct attention_cache cache_fill(const struct sample *s, const int32_t *order)
{
    const size_t K = s->shape.key_width, W = s->shape.value_width;
    const struct attention_cache cache = { malloc(S_MAX * H * (K + W) * sizeof(float)), S_MAX };
    assert_non_null(cache.base);
    for (size_t i = 0; i < S_MAX; i++) {
        const size_t token = (size_t)order[i];
        const float *k = s->k + token * H * K, *v = s->v + token * H * W;
        attention_store(&s->shape, &cache, i, k, v, (struct heads){ 2, H });
        attention_store(&s->shape, &cache, i, k, v, (struct heads){ 0, 2 });
    }
    return cache;
}

/* One query over the first `count` tokens. */
static void check_query(const struct sample *s, const struct attention_query *query, size_t token)
{
    static double expected[WIDTH_MAX], expected_weights[S_MAX];
    const size_t W = s->shape.value_width;
    int32_t keys[S_MAX];
    for (size_t j = 0; j < S_MAX; j++)
        keys[j] = (int32_t)j;
    for (size_t h = 0; h < H; h++) {
        const struct expected e = { token, query->place, query->count, keys, NULL };
        attend(s, h, &e, expected, expected_weights);
        for (size_t j = 0; j < W; j++)
            assert_near(expected[j], query->out[h * W + j]);
        for (size_t j = 0; j < query->count && query->record.weights; j++)
            assert_near(expected_weights[j],
                        query->record.weights[(h * S_MAX + query->place) * S_MAX + j]);
    }
}

/* Eight queries at once, each over more keys than the last, along a path or as the tokens lie; then
 * each alone, with its heads apart. */
static void check_queries_over(const struct sample *s, const struct attention_cache *cache,
                               const int32_t *path, size_t first_count)
{
    static float out[ATTENTION_QUERIES * H * WIDTH_MAX], alone[H * WIDTH_MAX];
    static float weights[ATTENTION_QUERIES][H * S_MAX * S_MAX];
    struct attention_query queries[ATTENTION_QUERIES];
    const struct pass pass = sample_pass(s);
    const struct attention attention = sample_attention(s);
    const size_t K = s->shape.key_width, W = s->shape.value_width;
    void *scratch = scratch_take(&s->shape, S_MAX);
    for (size_t i = 0; i < ATTENTION_QUERIES; i++)
        queries[i] =
            (struct attention_query){ .place = first_count + i - 1,
                                      .q = s->q + i * H * K,
                                      .path = path,
                                      .count = first_count + i,
                                      .out = out + i * H * W,
                                      .record = { i % 2 ? weights[i] : NULL, S_MAX, S_MAX, NULL } };
    attention_queries(&pass, &attention, cache, queries, ATTENTION_QUERIES, (struct heads){ 0, H },
                      scratch);
    for (size_t i = 0; i < ATTENTION_QUERIES; i++) {
        struct attention_query query = queries[i];
        check_query(s, &query, i);
        query.out = alone;
        query.record.weights = NULL;
        attention_queries(&pass, &attention, cache, &query, 1, (struct heads){ 1, H }, scratch);
        attention_queries(&pass, &attention, cache, &query, 1, (struct heads){ 0, 1 }, scratch);
        assert_memory_equal(alone, out + i * H * W, H * W * sizeof *alone);
    }
    free(scratch);
}

static void check_queries(struct sample *s)
{
    int32_t order[S_MAX], path[S_MAX], identity[S_MAX];
    for (size_t i = 0; i < S_MAX; i++) {
        identity[i] = (int32_t)i;
        order[i] = (int32_t)((i * 41 + 7) % S_MAX);
        path[(size_t)order[i]] = (int32_t)i;
    }
    const struct attention_cache straight = cache_fill(s, identity);
    const struct attention_cache shuffled = cache_fill(s, order);
    for (size_t count = 1; count + ATTENTION_QUERIES < S_MAX; count += 17) {
        check_queries_over(s, &straight, NULL, count);
        check_queries_over(s, &shuffled, path, count);
    }
    free(straight.base);
    free(shuffled.base);
}

static void queries_attend_along_their_paths_whoever_is_beside(void **state)
{
    (void)state;
    for_every_sample(check_queries);
}

/* Items 0 … 3·H−1 in two parts, cut anywhere. */
static void every_head_of_every_unit_belongs_to_one_part(void **state)
{
    (void)state;
    for (size_t cut = 0; cut <= 3 * H; cut++) {
        size_t heads = 0;
        for (size_t unit = 0; unit < 3; unit++) {
            const struct heads a = heads_among(unit, H, 0, cut);
            const struct heads b = heads_among(unit, H, cut, SIZE_MAX);
            assert_int_equal(a.first, 0);
            assert_int_equal(a.end, b.first);
            assert_int_equal(b.end, H);
            heads += a.end;
        }
        assert_int_equal(heads, cut);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_rows_tokens_attend_to_each_other),
        cmocka_unit_test(queries_attend_along_their_paths_whoever_is_beside),
        cmocka_unit_test(every_head_of_every_unit_belongs_to_one_part),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
