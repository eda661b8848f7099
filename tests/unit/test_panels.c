/* The packed layout, and how numbers are rounded into it. */
#include "product_runs.h"

/* The single element of a packed 1 × 1 matrix. */
static uint16_t rounded(float value, enum dtype dtype)
{
    _Alignas(PANEL_ALIGN) uint16_t out[2 * PANEL_STEP];
    const struct matrix one = { &value, DTYPE_F32, 1, 1, LAYOUT_ROWS };
    assert_true(panels_bytes(dtype, 1, 1) <= sizeof out);
    assert_true(panels_pack(&one, dtype, out));
    return out[0];
}

static float from_bits(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static void bfloat16_is_the_nearest_and_ties_go_to_even(void **state)
{
    (void)state;
    static const float table[][2] = {
        { 0.26914088f, 0.26953125f },     { 3.14f, 3.140625f },         { 1.00390625f, 1.0f },
        { 1.01171875f, 1.015625f },       { 3.39617753e38f, INFINITY }, { -1.00390625f, -1.0f },
        { INFINITY, INFINITY },           { -INFINITY, -INFINITY },     { 0.0f, 0.0f },
        { 0x1.fefffep127f, 0x1.fep127f }, { 0x1p-149f, 0.0f },
    };
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        assert_true(same_bits(bf16_to_float(rounded(table[i][0], DTYPE_BF16)), table[i][1]));
    assert_int_equal(rounded(-0.0f, DTYPE_BF16), 0x8000);
    for (uint32_t stored = 0; stored < 0x10000; stored++) {
        const float value = bf16_to_float((uint16_t)stored);
        if (!isnan(value))
            assert_int_equal(rounded(value, DTYPE_BF16), stored);
    }
}

static void a_nan_stays_one(void **state)
{
    (void)state;
    static const uint32_t nans[] = { 0x7fc00000, 0x7f800001, 0xff800001, 0x7fffffff,
                                     0xffffffff, 0x7f80ffff, 0x7f810000 };
    for (size_t i = 0; i < sizeof nans / sizeof *nans; i++) {
        assert_true(isnan(bf16_to_float(rounded(from_bits(nans[i]), DTYPE_BF16))));
        assert_true(isnan(f16_to_float(rounded(from_bits(nans[i]), DTYPE_F16))));
    }
}

static void float16_is_the_nearest_and_ties_go_to_even(void **state)
{
    (void)state;
    static const float table[][2] = {
        { 65504.0f, 65504.0f },
        { 65519.996f, 65504.0f },
        { 65520.0f, INFINITY },
        { -65520.0f, -INFINITY },
        { 0x1p-25f, 0.0f },
        { 0x1.000002p-25f, 0x1p-24f },
        { 0x1.8p-24f, 0x1p-23f },
        { 0x1.ffep-15f, 0x1p-14f },
        { 0x1.002p0f, 0x1.0p0f },
        { 0x1.006p0f, 0x1.008p0f },
        { 0x1.002002p0f, 0x1.004p0f },
        { 1e-30f, 0.0f },
    };
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        assert_true(same_bits(f16_to_float(rounded(table[i][0], DTYPE_F16)), table[i][1]));
    for (uint32_t stored = 0; stored < 0x10000; stored++) {
        const float value = f16_to_float((uint16_t)stored);
        if (!isnan(value))
            assert_int_equal(rounded(value, DTYPE_F16), stored);
    }
    for (uint32_t stored = 0; stored < 0x7bff; stored++) { /* half way to the next */
        const float low = f16_to_float((uint16_t)stored), high = f16_to_float(stored + 1);
        const uint32_t even = stored + (stored & 1);
        assert_int_equal(rounded(low + (high - low) / 2, DTYPE_F16), even);
    }
}

static void every_set_widens_every_stored_number_alike(void **state)
{
    (void)state;
    static uint16_t stored[0x10000];
    static float out[0x10000];
    for (size_t i = 0; i < 0x10000; i++)
        stored[i] = (uint16_t)i;
    for (size_t t = 0; t < table_count; t++) {
        for (enum dtype dtype = DTYPE_F16; dtype <= DTYPE_BF16; dtype++) {
            tables[t].widen(stored, dtype, out, 0x10000);
            for (size_t i = 0; i < 0x10000; i++) {
                const float value = stored_to_float(stored, dtype, i);
                assert_true(isnan(value) ? isnan(out[i]) : same_bits(out[i], value));
            }
        }
    }
}

/* w[column][k] of a panel of `width` columns, whose first is `first`. */
static float packed_at(const struct matrix *packed, size_t column, size_t k)
{
    const size_t group = panel_group(packed->dtype);
    const size_t first = column / PANEL_COLUMNS * PANEL_COLUMNS;
    const size_t width = panel_width(packed->rows, first);
    const char *panel =
        (const char *)packed->data + panel_offset(packed->dtype, packed->columns, first);
    const size_t index = (k / group * width + column - first) * group + k % group;
    return packed->dtype == DTYPE_I8 ? (float)((const int8_t *)panel)[index]
                                     : stored_to_float(panel, packed->dtype, index);
}

static void panels_lie_as_their_header_says(void **state)
{
    (void)state;
    static const size_t shapes[][2] = { { 1, 1 }, { 48, 4 }, { 49, 7 }, { 100, 33 }, { 64, 6 } };
    for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++) {
        for (enum dtype dtype = DTYPE_F32; dtype < DTYPE_I8; dtype++) {
            const size_t N = shapes[s][0], K = shapes[s][1], group = panel_group(dtype);
            float w[100 * 33];
            uint32_t seed = 1;
            for (size_t i = 0; i < N * K; i++)
                w[i] = short_number(&seed);
            const struct form form = { LAYOUT_PANELS, dtype };
            void *data = aligned(form_bytes(&form, N, K));
            const struct matrix packed = form_of(&form, w, N, K, data);
            assert_int_equal(form_bytes(&form, N, K), panels_width(N) *
                                                          ((K + group - 1) / group * group) *
                                                          dtype_bytes(dtype));
            for (size_t n = 0; n < panels_width(N); n++)
                for (size_t k = 0; k < (K + group - 1) / group * group; k++)
                    assert_true(packed_at(&packed, n, k) == (n < N && k < K ? w[n * K + k] : 0.0f));
            free(data);
        }
    }
}

static void int8_panels_have_scales_and_sums_behind_them(void **state)
{
    (void)state;
    enum { N = 53, K = 30 };
    float w[N * K];
    fill(w, N * K, 2);
    const struct form form = { LAYOUT_PANELS, DTYPE_I8 };
    void *data = aligned(form_bytes(&form, N, K));
    const struct matrix packed = form_of(&form, w, N, K, data);
    for (size_t n = 0; n < panels_width(N); n++) {
        const float largest = n < N ? largest_size(w + n * K, K) : 0.0f;
        int32_t sum = 0;
        for (size_t k = 0; k < 32; k++) {
            const float element = packed_at(&packed, n, k);
            assert_true(element ==
                        (n < N && k < K ? (float)plain_integer(w[n * K + k], largest) : 0.0f));
            sum += (int32_t)element;
        }
        const size_t first = n / PANEL_COLUMNS * PANEL_COLUMNS;
        assert_true(panel_scales(&packed, first)[n - first] == largest / 127.0f);
        assert_int_equal(panel_sums(&packed, first)[n - first], sum);
    }
    free(data);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bfloat16_is_the_nearest_and_ties_go_to_even),
        cmocka_unit_test(a_nan_stays_one),
        cmocka_unit_test(float16_is_the_nearest_and_ties_go_to_even),
        cmocka_unit_test(every_set_widens_every_stored_number_alike),
        cmocka_unit_test(panels_lie_as_their_header_says),
        cmocka_unit_test(int8_panels_have_scales_and_sums_behind_them),
    };
    return cmocka_run_group_tests(tests, open_tables, NULL);
}
