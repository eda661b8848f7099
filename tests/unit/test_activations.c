/* Activations of every kernel set of this machine, against double precision. */
#include "kernel_sets.h"

#include <float.h>
#include <math.h>

static float float_of(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static double sigmoid(double x)
{
    return x < 0.0 ? exp(x) / (1.0 + exp(x)) : 1.0 / (1.0 + exp(-x));
}

/* The argument of what is exponential in a tail; its rounding is multiplied there. */
static double gelu_tanh_argument(double x)
{
    return 1.5957691216057308 * (x + 0.044715 * x * x * x);
}

static double activated(enum activation activation, double x)
{
    switch (activation) {
    case ACTIVATION_RELU:
        return x < 0.0 ? 0.0 : x;
    case ACTIVATION_GELU:
        return x * 0.5 * erfc(-x * sqrt(0.5));
    case ACTIVATION_GELU_TANH:
        return x * sigmoid(gelu_tanh_argument(x));
    case ACTIVATION_SILU:
        return x * sigmoid(x);
    case ACTIVATION_GELU_QUICK:
        return x * sigmoid(1.702 * x);
    case ACTIVATION_TANH:
        return tanh(x);
    case ACTIVATION_SIGMOID:
        return sigmoid(x);
    case ACTIVATION_RELU6:
        return x < 0.0 ? 0.0 : x > 6.0 ? 6.0 : x;
    case ACTIVATION_RELU_SQUARED:
        return x < 0.0 ? 0.0 : x * x;
    case ACTIVATION_COUNT:
        break;
    }
    return NAN;
}

/* A few units in the last place; in a tail the rounding of its argument is multiplied. */
static double allowed_error(enum activation activation, double x, double value)
{
    const double unit = 0x1p-24, tiny = 2e-36; /* 87 · exp(−87) is below */
    double tail = 0.0;
    if (activation == ACTIVATION_GELU_TANH && x < 0.0)
        tail = 6.0 * -gelu_tanh_argument(x);
    else if (activation == ACTIVATION_GELU_QUICK && x < 0.0)
        tail = 3.0 * -x;
    else if (activation == ACTIVATION_GELU && x < 0.0)
        tail = x * x; /* without a fused vec_fma */
    return unit * (8.0 + tail) * fabs(value) + tiny;
}

static void assert_activated(const struct kernels *kernels, enum activation activation,
                             const float *x, const float *y, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const double expected = activated(activation, (double)x[i]);
        if (fabs(expected) > (double)FLT_MAX) {
            assert_true(isinf(y[i]));
            continue;
        }
        if (!(fabs((double)y[i] - expected) <= allowed_error(activation, (double)x[i], expected)))
            fail_msg("%s: activation %d of %a is %a, not %a", kernels->isa, (int)activation,
                     (double)x[i], (double)y[i], expected);
    }
}

enum { BLOCK = 1000 };

/* Every exponent and sign, and [−16, 16] densely. */
static void activations_are_right_to_a_few_units_in_the_last_place(void **state)
{
    (void)state;
    static float x[BLOCK], y[BLOCK];
    for (size_t t = 0; t < table_count; t++) {
        for (enum activation a = 0; a < ACTIVATION_COUNT; a++) {
            for (uint32_t block = 0; block < 200; block++) {
                for (uint32_t i = 0; i < BLOCK; i++) {
                    const uint32_t index = block / 2 * BLOCK + i;
                    x[i] = block % 2 ? ((float)index - 50000.0f) * 0x1.5p-12f
                                     : float_of(index * 42943u);
                    x[i] = isfinite(x[i]) ? x[i] : 0.0f;
                }
                memcpy(y, x, sizeof y);
                tables[t].activate(a, y, NULL, BLOCK);
                assert_activated(&tables[t], a, x, y, BLOCK);
            }
        }
    }
}

static void activations_of_what_is_no_number_are_the_reference_s(void **state)
{
    (void)state;
    static const struct {
        float x, y[ACTIVATION_COUNT];
    } cases[] = {
        { INFINITY,
          { [ACTIVATION_RELU] = INFINITY,
            [ACTIVATION_GELU] = INFINITY,
            [ACTIVATION_GELU_TANH] = INFINITY,
            [ACTIVATION_SILU] = INFINITY,
            [ACTIVATION_GELU_QUICK] = INFINITY,
            [ACTIVATION_TANH] = 1,
            [ACTIVATION_SIGMOID] = 1,
            [ACTIVATION_RELU6] = 6,
            [ACTIVATION_RELU_SQUARED] = INFINITY } },
        { -INFINITY,
          { [ACTIVATION_GELU] = NAN,
            [ACTIVATION_GELU_TANH] = NAN,
            [ACTIVATION_SILU] = NAN,
            [ACTIVATION_GELU_QUICK] = NAN,
            [ACTIVATION_TANH] = -1 } },
        { -FLT_MAX,
          { [ACTIVATION_GELU] = -0.0f,
            [ACTIVATION_GELU_TANH] = -0.0f,
            [ACTIVATION_SILU] = -0.0f,
            [ACTIVATION_GELU_QUICK] = -0.0f,
            [ACTIVATION_TANH] = -1 } },
        { -0.0f,
          { [ACTIVATION_RELU] = -0.0f,
            [ACTIVATION_GELU] = -0.0f,
            [ACTIVATION_GELU_TANH] = -0.0f,
            [ACTIVATION_SILU] = -0.0f,
            [ACTIVATION_GELU_QUICK] = -0.0f,
            [ACTIVATION_TANH] = -0.0f,
            [ACTIVATION_SIGMOID] = 0.5f,
            [ACTIVATION_RELU6] = -0.0f } },
    };
    for (size_t t = 0; t < table_count; t++) {
        for (enum activation a = 0; a < ACTIVATION_COUNT; a++) {
            for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
                float y = cases[i].x;
                tables[t].activate(a, &y, NULL, 1);
                if (!same_bits(y, cases[i].y[a]) && !(isnan(y) && isnan(cases[i].y[a])))
                    fail_msg("%s: activation %d of %g is %g", tables[t].isa, (int)a,
                             (double)cases[i].x, (double)y);
            }
            /* Payloads with every low bit, since exponents are made of such bits. */
            for (uint32_t bits = 1; bits < 0x800000; bits = bits * 2 + 1) {
                float y[2] = { float_of(0x7f800000 | bits), float_of(0xff800000 | bits) };
                tables[t].activate(a, y, NULL, 2);
                assert_true(isnan(y[0]) && isnan(y[1]));
            }
        }
    }
}

static void a_factor_is_multiplied_by(void **state)
{
    (void)state;
    float x[70], plain[70], product[70], factor[70];
    for (size_t t = 0; t < table_count; t++) {
        for (size_t n = 1; n <= 70; n++) {
            fill(x, n, (uint32_t)n);
            fill(factor, n, (uint32_t)n + 1000);
            memcpy(plain, x, sizeof x);
            memcpy(product, x, sizeof x);
            tables[t].activate(ACTIVATION_SILU, plain, NULL, n);
            tables[t].activate(ACTIVATION_SILU, product, factor, n);
            for (size_t i = 0; i < n; i++)
                assert_true(same_bits(product[i], plain[i] * factor[i]));
        }
    }
}

/* Alone, in a row of any length, at any address. */
static void an_element_has_the_same_bits_in_any_place(void **state)
{
    (void)state;
    enum { N = 75 };
    float x[N + 3], y[N + 3];
    fill(x, N, 5);
    for (size_t t = 0; t < table_count; t++) {
        for (enum activation a = 0; a < ACTIVATION_COUNT; a++) {
            float alone[N];
            for (size_t i = 0; i < N; i++) {
                alone[i] = x[i];
                tables[t].activate(a, &alone[i], NULL, 1);
            }
            for (size_t n = 1; n <= N; n++) {
                float *row = y + n % 4;
                memcpy(row, x + (N - n), n * sizeof *row);
                tables[t].activate(a, row, NULL, n);
                assert_memory_equal(row, alone + (N - n), n * sizeof *row);
            }
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(activations_are_right_to_a_few_units_in_the_last_place),
        cmocka_unit_test(activations_of_what_is_no_number_are_the_reference_s),
        cmocka_unit_test(a_factor_is_multiplied_by),
        cmocka_unit_test(an_element_has_the_same_bits_in_any_place),
    };
    return cmocka_run_group_tests(tests, open_tables, NULL);
}
