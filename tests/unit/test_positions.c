/* What a token's place means: the layouts of sines, what counts as a position, the buckets of
 * distances.  The figures are those of the reference. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "../../src/model/positions.h"

enum { NO_PAD = 1000 };

static void assert_row(enum position_kind kind, size_t index, size_t pad_row, size_t D,
                       const float *expected)
{
    float row[8];
    sinusoids(kind, index, pad_row, row, D);
    for (size_t i = 0; i < D; i++)
        assert_float_equal(row[i], expected[i], 1e-6f);
}

#define ROW(...) ((const float[]){ __VA_ARGS__ })

static void plain_sines_alternate_with_cosines(void **state)
{
    (void)state;
    assert_row(POSITION_SINUSOIDAL, 0, NO_PAD, 8, ROW(0, 1, 0, 1, 0, 1, 0, 1));
    assert_row(POSITION_SINUSOIDAL, 1, NO_PAD, 8,
               ROW(.841471f, .540302f, .099833f, .995004f, .01f, .99995f, .001f, 1));
}

static void marian_has_all_sines_before_all_cosines(void **state)
{
    (void)state;
    assert_row(POSITION_HALVES, 0, NO_PAD, 8, ROW(0, 0, 0, 0, 1, 1, 1, 1));
    assert_row(POSITION_HALVES, 1, NO_PAD, 8,
               ROW(.841471f, .099833f, .01f, .001f, .540302f, .995004f, .99995f, 1));
    assert_row(POSITION_HALVES, 1, NO_PAD, 5,
               ROW(.841471f, .025116f, .000631f, .540302f, .999685f));
}

static void m2m_divides_by_one_less_than_half_and_its_padding_is_zero(void **state)
{
    (void)state;
    assert_row(POSITION_FAIRSEQ, 2, 1, 8,
               ROW(.909297f, .092699f, .004309f, .0002f, -.416147f, .995694f, .999991f, 1));
    assert_row(POSITION_FAIRSEQ, 1, 1, 8, ROW(0, 0, 0, 0, 0, 0, 0, 0));
    assert_row(POSITION_FAIRSEQ, 0, 1, 8, ROW(0, 0, 0, 0, 1, 1, 1, 1));
    assert_row(POSITION_FAIRSEQ, 2, 2, 7, ROW(0, 0, 0, 0, 0, 0, 0));
    assert_row(POSITION_FAIRSEQ, 3, 2, 7, ROW(.14112f, .029996f, .0003f, -.989992f, .99955f, 1, 0));
    assert_row(POSITION_FAIRSEQ, 3, 1, 1, ROW(0));
}

static void far_positions_are_as_exact_as_near_ones(void **state)
{
    (void)state;
    assert_row(POSITION_HALVES, 4000, NO_PAD, 6,
               ROW(-.683504f, -.304665f, .722243f, -.729947f, -.95246f, -.69164f));
}

static void positions_are_places_unless_the_family_counts(void **state)
{
    (void)state;
    static const int32_t tokens[] = { 1, 5, 1, 1, 7, 9, 1 };
    int32_t positions[7];
    struct model_config config = { .uncounted_id = 1, .position_count = COUNT_PLACES };
    config_positions(&config, tokens, 7, positions);
    for (int32_t i = 0; i < 7; i++)
        assert_int_equal(positions[i], i);
    for (int kind = COUNT_REAL; kind <= COUNT_REAL_SHIFTED; kind++) {
        config.position_count = (enum position_count)kind;
        config_positions(&config, tokens, 7, positions);
        assert_memory_equal(positions, ((const int32_t[]){ 0, 1, 0, 0, 2, 3, 0 }),
                            sizeof positions);
    }
}

/* Of `tokens`, the first `prefix_count` of which were given. */
static void assert_targets(enum position_count kind, size_t prefix_count, const int32_t *tokens,
                           const size_t *expected)
{
    const struct model_config config = { .uncounted_id = 1, .position_count = kind };
    for (size_t i = 0; i < 6; i++)
        assert_int_equal(target_position(&config, tokens, i, prefix_count), expected[i]);
}

static void padding_counts_in_a_prefix_but_not_behind_it(void **state)
{
    (void)state;
    static const int32_t tokens[] = { 2, 1, 5, 1, 6, 7 }; /* 1 is padding */
    assert_targets(COUNT_PLACES, 3, tokens, (const size_t[]){ 0, 1, 2, 3, 4, 5 });
    assert_targets(COUNT_REAL, 3, tokens, (const size_t[]){ 1, 0, 2, 0, 5, 6 });
    assert_targets(COUNT_REAL, 6, tokens, (const size_t[]){ 1, 0, 2, 0, 3, 4 });
    assert_targets(COUNT_REAL, 1, tokens, (const size_t[]){ 1, 0, 3, 0, 5, 6 });
    assert_targets(COUNT_REAL_SHIFTED, 3, tokens, (const size_t[]){ 1, 0, 2, 3, 5, 6 });
    assert_targets(COUNT_REAL_SHIFTED, 6, tokens, (const size_t[]){ 1, 0, 2, 0, 3, 4 });
}

enum { FAR = 400 };

/* The bucket of the distance key − query. */
static size_t bucket_of(size_t buckets, size_t distance_max, bool causal, ptrdiff_t distance)
{
    static uint16_t table[2 * FAR + 1];
    const struct model_config config = { .relative_buckets = buckets,
                                         .relative_distance = distance_max };
    const ptrdiff_t R = (ptrdiff_t)distance_max;
    relative_buckets(&config, causal, table);
    return table[distance < -R ? 0 : distance > R ? 2 * R : distance + R];
}

/* Buckets `first` … on keys before their query begin at the distances `starts`. */
static void assert_starts(size_t buckets, size_t distance_max, bool causal, size_t first,
                          const size_t *starts, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const ptrdiff_t start = (ptrdiff_t)starts[i];
        assert_int_equal(bucket_of(buckets, distance_max, causal, -start), first + i);
        assert_int_equal(bucket_of(buckets, distance_max, causal, -(start - 1)), first + i - 1);
        if (!causal)
            assert_int_equal(bucket_of(buckets, distance_max, causal, start),
                             first + i + buckets / 2);
    }
    assert_int_equal(bucket_of(buckets, distance_max, causal, -FAR), first + count - 1);
}

static void distances_of_the_encoder_fall_into_the_reference_s_buckets(void **state)
{
    (void)state;
    static const size_t starts[] = { 1, 2, 3, 4, 5, 6, 7, 8, 12, 16, 23, 32, 46, 64, 91 };
    assert_starts(32, 128, false, 1, starts, 15);
    assert_int_equal(bucket_of(32, 128, false, 0), 0);
    assert_starts(10, 20, false, 1, (const size_t[]){ 1, 2, 5, 10 }, 4);
    assert_starts(8, 24, false, 1, (const size_t[]){ 1, 2, 7 }, 3);
}

static void distances_of_the_decoder_fall_into_the_reference_s_buckets(void **state)
{
    (void)state;
    static const size_t starts[] = {
        16, 19, 21, 24, 27, 31, 35, 40, 46, 52, 59, 67, 77, 87, 99, 113
    };
    assert_starts(32, 128, true, 16, starts, 16);
    for (ptrdiff_t near = 0; near < 16; near++)
        assert_int_equal(bucket_of(32, 128, true, -near), near);
    for (ptrdiff_t future = 1; future < FAR; future++)
        assert_int_equal(bucket_of(32, 128, true, future), 0);
    assert_starts(10, 20, true, 5, (const size_t[]){ 5, 7, 9, 12, 16 }, 5);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(plain_sines_alternate_with_cosines),
        cmocka_unit_test(marian_has_all_sines_before_all_cosines),
        cmocka_unit_test(m2m_divides_by_one_less_than_half_and_its_padding_is_zero),
        cmocka_unit_test(far_positions_are_as_exact_as_near_ones),
        cmocka_unit_test(positions_are_places_unless_the_family_counts),
        cmocka_unit_test(padding_counts_in_a_prefix_but_not_behind_it),
        cmocka_unit_test(distances_of_the_encoder_fall_into_the_reference_s_buckets),
        cmocka_unit_test(distances_of_the_decoder_fall_into_the_reference_s_buckets),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
