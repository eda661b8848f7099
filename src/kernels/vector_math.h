/* vector_math.h — functions of a vec, lane by lane.  A file includes a vec_*.h before.
 *
 * Relative errors, with a fused vec_fma: exp_nonpositive 9e-8, vec_tanh and vec_sigmoid 1.8e-7,
 * normal_cdf 4e-7.  A NaN gives NaN; what is below exp(−87) may be zero.  Coefficients: minimax
 * fits of the relative error, rounded to floats. */

/* e^(x − less) = (1 + what is returned) · 2ⁿ of n + 1.5 · 2²³ in *shifted, for −87 ≤ x ≤ 0; an x
 * below is taken for −87.  `less` is small beside x. */
static inline vec exp_parts(vec x, vec less, vec *shifted)
{
    const vec magic = vec_set(0x1.8p23f); /* adding it leaves no room for a fraction */
    x = vec_max(vec_set(-87.0f), x);
    *shifted = vec_fma(x, vec_set(0x1.715476p0f), magic); /* 1 / ln 2 */
    const vec n = vec_sub(*shifted, magic);
    /* ln 2 in two parts: n times the first is exact */
    vec r = vec_fma(n, vec_set(-0.693359375f), x);
    r = vec_sub(vec_fma(n, vec_set(2.12194440e-4f), r), less);
    vec p = vec_set(0x1.6a1a6ep-10f);
    p = vec_fma(p, r, vec_set(0x1.123fc8p-7f));
    p = vec_fma(p, r, vec_set(0x1.555916p-5f));
    p = vec_fma(p, r, vec_set(0x1.55548ap-3f));
    p = vec_fma(p, r, vec_set(0x1.fffffcp-2f));
    return vec_fma(vec_mul(r, r), p, r);
}

static inline vec exp_nonpositive_parts(vec x, vec less)
{
    vec shifted;
    const vec fraction = exp_parts(x, less, &shifted);
    const vec power = vec_mul(vec_add(fraction, vec_set(1.0f)), vec_power(shifted));
    return vec_where_below(x, vec_set(-87.0f), vec_zero(), power);
}

/* eˣ of x ≤ 0 */
static inline vec exp_nonpositive(vec x)
{
    return exp_nonpositive_parts(x, vec_zero());
}

/* By e^−2|x| − 1, which has no cancellation. */
static inline vec vec_tanh(vec x)
{
    vec shifted;
    const vec twice = vec_copysign(vec_add(x, x), vec_set(-1.0f));
    const vec fraction = exp_parts(twice, vec_zero(), &shifted);
    const vec power = vec_power(shifted);
    const vec below = vec_fma(power, fraction, vec_sub(power, vec_set(1.0f)));
    return vec_copysign(vec_div(below, vec_add(below, vec_set(2.0f))), x);
}

/* 1 / (1 + e^−x), by e^−|x|, which is at most 1. */
static inline vec vec_sigmoid(vec x)
{
    const vec one = vec_set(1.0f), e = exp_nonpositive(vec_copysign(x, vec_set(-1.0f)));
    return vec_div(vec_where_below(x, vec_zero(), e, one), vec_add(one, e));
}

/* Φ(x) = ½ erfc(−x / √2): with a = |x|, Φ(−a) = e^(−a² / 2) · t · P(t), t = 1 / (1 + 0.34 a). */
static inline vec normal_cdf(vec x)
{
    const vec one = vec_set(1.0f), a = vec_copysign(x, one);
    const vec t = vec_div(one, vec_fma(a, vec_set(0.34f), one));
    vec p = vec_set(-0x1.abf51ap-6f);
    p = vec_fma(p, t, vec_set(0x1.1db1d8p-3f));
    p = vec_fma(p, t, vec_set(-0x1.17b00ap-2f));
    p = vec_fma(p, t, vec_set(0x1.9e11c8p-3f));
    p = vec_fma(p, t, vec_set(-0x1.6e54eep-5f));
    p = vec_fma(p, t, vec_set(0x1.d882cp-4f));
    p = vec_fma(p, t, vec_set(0x1.d7d986p-4f));
    p = vec_fma(p, t, vec_set(0x1.16c1fep-3f));
    p = vec_fma(p, t, vec_set(0x1.15c034p-3f));
    /* What the square loses in rounding matters where it is large; where it is infinite, the power
     * is zero. */
    const vec half = vec_mul(a, vec_set(0.5f)), square = vec_sub(vec_zero(), vec_mul(half, a));
    const vec tail =
        vec_mul(vec_mul(p, t), exp_nonpositive_parts(square, vec_fma(half, a, square)));
    return vec_where_below(x, vec_zero(), tail, vec_sub(one, tail));
}

/* The activations. */

static inline vec vec_relu(vec x)
{
    return vec_max(vec_zero(), x);
}

static inline vec vec_relu6(vec x)
{
    const vec most = vec_set(6.0f);
    return vec_where_below(most, x, most, vec_relu(x));
}

static inline vec vec_relu_squared(vec x)
{
    return vec_mul(vec_relu(x), vec_relu(x));
}

static inline vec vec_gelu(vec x)
{
    return vec_mul(x, normal_cdf(x));
}

/* x · ½ (1 + tanh u) = x · σ(2 u) */
static inline vec vec_gelu_tanh(vec x)
{
    const vec cube = vec_mul(vec_mul(x, x), x);
    const vec u = vec_fma(cube, vec_set(0.044715f), x);
    return vec_mul(x, vec_sigmoid(vec_mul(u, vec_set(1.5957691f))));
}

static inline vec vec_silu(vec x)
{
    return vec_mul(x, vec_sigmoid(x));
}

static inline vec vec_gelu_quick(vec x)
{
    return vec_mul(x, vec_sigmoid(vec_mul(x, vec_set(1.702f))));
}
