/* The part of the start-up self-check that is about loops over vectors. */
#include <math.h>
#include <stdbool.h>

#include "kernels_internal.h"

enum { N_MAX = 53 };

/* Rows of n numbers in [−8, 8), and room for results. */
struct sample {
    const struct kernels *kernels;
    size_t n;
    float x[N_MAX], w[N_MAX], y[N_MAX];
};

static bool close_to(float value, double expected)
{
    return fabs((double)value - expected) <= 1e-5 * (1.0 + fabs(expected));
}

static double largest_of(const struct sample *s)
{
    double largest = -INFINITY;
    for (size_t i = 0; i < s->n; i++)
        if ((double)s->x[i] > largest)
            largest = (double)s->x[i];
    return largest;
}

static double sum_of_powers(const struct sample *s, double largest)
{
    double sum = 0.0;
    for (size_t i = 0; i < s->n; i++)
        sum += exp((double)s->x[i] - largest);
    return sum;
}

static bool check_dot(struct sample *s)
{
    double sum = 0.0;
    for (size_t i = 0; i < s->n; i++)
        sum += (double)s->x[i] * (double)s->w[i];
    return close_to(s->kernels->dot(s->x, s->w, s->n) / 64.0f, sum / 64.0);
}

static bool check_axpy(struct sample *s)
{
    bool right = true;
    memcpy(s->y, s->w, sizeof s->y);
    s->kernels->axpy(0.5f, s->x, s->y, s->n);
    for (size_t i = 0; i < s->n; i++)
        right &= close_to(s->y[i], (double)s->w[i] + 0.5 * (double)s->x[i]);
    return right;
}

static double activated(enum activation activation, double x)
{
    switch (activation) {
    case ACTIVATION_RELU:
        return fmax(x, 0.0);
    case ACTIVATION_GELU:
        return x * 0.5 * erfc(-x * sqrt(0.5));
    case ACTIVATION_GELU_TANH:
        return x * 0.5 * (1.0 + tanh(0.7978845608 * (x + 0.044715 * x * x * x)));
    case ACTIVATION_SILU:
        return x / (1.0 + exp(-x));
    case ACTIVATION_GELU_QUICK:
        return x / (1.0 + exp(-1.702 * x));
    case ACTIVATION_TANH:
        return tanh(x);
    case ACTIVATION_SIGMOID:
        return 1.0 / (1.0 + exp(-x));
    case ACTIVATION_RELU6:
        return fmin(fmax(x, 0.0), 6.0);
    case ACTIVATION_RELU_SQUARED:
        return fmax(x, 0.0) * fmax(x, 0.0);
    case ACTIVATION_COUNT:
        break;
    }
    return NAN;
}

static bool check_activate(struct sample *s)
{
    bool right = true;
    for (enum activation a = 0; a < ACTIVATION_COUNT; a++) {
        const float *factor = s->n % 2 ? s->w : NULL;
        memcpy(s->y, s->x, sizeof s->y);
        s->kernels->activate(a, s->y, factor, s->n);
        for (size_t i = 0; i < s->n; i++)
            right &= close_to(s->y[i],
                              activated(a, (double)s->x[i]) * (factor ? (double)factor[i] : 1.0));
    }
    return right;
}

static bool check_norm(struct sample *s, enum norm_kind kind)
{
    const double eps = 0.25, n = (double)s->n;
    const float *bias = kind == NORM_RMS ? NULL : s->x;
    double sum = 0.0, squares = 0.0;
    for (size_t i = 0; i < s->n; i++)
        sum += kind == NORM_RMS ? 0.0 : (double)s->x[i];
    for (size_t i = 0; i < s->n; i++)
        squares += ((double)s->x[i] - sum / n) * ((double)s->x[i] - sum / n);
    const double spread =
        kind == NORM_LAYER_UNBIASED ? sqrt(squares / (n - 1.0)) + eps : sqrt(squares / n + eps);
    s->kernels->normalize(&(struct row_norm){ kind, eps, s->w, bias, s->n }, s->x, s->y);
    bool right = true;
    for (size_t i = 0; i < s->n; i++)
        right &= close_to(s->y[i], ((double)s->x[i] - sum / n) / spread * (double)s->w[i] +
                                       (bias ? (double)bias[i] : 0.0));
    return right;
}

static bool check_normalize(struct sample *s)
{
    return check_norm(s, NORM_LAYER) && check_norm(s, NORM_RMS) &&
           (s->n < 2 || check_norm(s, NORM_LAYER_UNBIASED));
}

static bool check_softmax(struct sample *s)
{
    const double largest = largest_of(s), sum = sum_of_powers(s, largest);
    bool right = true;
    memcpy(s->y, s->x, sizeof s->y);
    s->kernels->softmax(s->y, s->n);
    for (size_t i = 0; i < s->n; i++)
        right &= close_to(s->y[i], exp((double)s->x[i] - largest) / sum);
    return right;
}

static bool check_max(struct sample *s)
{
    return s->kernels->max(s->x, s->n) == (float)largest_of(s);
}

static bool check_sum_exp(struct sample *s)
{
    const double largest = largest_of(s), sum = sum_of_powers(s, largest);
    return fabs(s->kernels->sum_exp(s->x, s->n, (float)largest) - sum) <= 1e-6 * sum;
}

static bool check_subtract(struct sample *s)
{
    bool right = true;
    memcpy(s->y, s->x, sizeof s->y);
    s->kernels->subtract(s->y, s->n, 3.0, 0.1);
    for (size_t i = 0; i < s->n; i++)
        right &= s->y[i] == (float)((double)s->x[i] - 3.0 - 0.1);
    return right;
}

static bool check_find_above(struct sample *s)
{
    for (size_t first = 0; first < s->n; first++) {
        size_t expected = first;
        while (expected < s->n && !(s->x[expected] + 0.5f > 6.0f))
            expected++;
        if (s->kernels->find_above(s->x, first, s->n, 0.5f, 6.0f) != expected)
            return false;
    }
    return true;
}

static const struct {
    const char *name;
    bool (*check)(struct sample *sample);
} checks[] = {
    { "dot", check_dot },
    { "axpy", check_axpy },
    { "activate", check_activate },
    { "normalize", check_normalize },
    { "softmax", check_softmax },
    { "max", check_max },
    { "sum_exp", check_sum_exp },
    { "subtract", check_subtract },
    { "find_above", check_find_above },
};

int vectors_check(const struct kernels *kernels, struct error *err)
{
    uint32_t state = 1;
    for (size_t n = 1; n <= N_MAX; n++) {
        struct sample s = { .kernels = kernels, .n = n };
        for (size_t i = 0; i < n; i++) {
            state = state * 1664525u + 1013904223u;
            s.x[i] = (float)(int32_t)state * 0x1p-28f;
            s.w[i] = (float)(int32_t)(state * 2654435761u) * 0x1p-28f;
        }
        for (size_t i = 0; i < sizeof checks / sizeof *checks; i++)
            if (!checks[i].check(&s))
                return error_set(err, ERR_INTERNAL,
                                 "self-check: %s of kernel set \"%s\" is wrong for n %zu",
                                 checks[i].name, kernels->isa, n);
    }
    return 0;
}
