/* Plain C: the specification of the other sets, and what runs where there is none. */
#include "kernels_internal.h"

#define KERNEL_SET "portable"
enum { LANES = 8, TILE_ROWS = 2 };

typedef struct {
    float lane[LANES];
} vec;

static inline vec vec_set(float a)
{
    vec v;
    for (size_t i = 0; i < LANES; i++)
        v.lane[i] = a;
    return v;
}

static inline vec vec_zero(void)
{
    return vec_set(0.0f);
}

static inline vec vec_fma(vec a, vec b, vec c)
{
    for (size_t i = 0; i < LANES; i++)
        c.lane[i] += a.lane[i] * b.lane[i];
    return c;
}

static inline float vec_sum(vec v)
{
    for (size_t half = LANES / 2; half > 0; half /= 2)
        for (size_t i = 0; i < half; i++)
            v.lane[i] += v.lane[i + half];
    return v.lane[0];
}

static inline vec vec_load(const float *p)
{
    vec v;
    memcpy(&v, p, sizeof v);
    return v;
}

static inline void vec_store(float *p, vec v)
{
    memcpy(p, &v, sizeof v);
}

static inline vec vec_load_part(const float *p, size_t n)
{
    vec v = vec_zero();
    memcpy(&v, p, n * sizeof *p);
    return v;
}

static inline void vec_store_part(float *p, size_t n, vec v)
{
    memcpy(p, &v, n * sizeof *p);
}

static inline vec vec_load_f16(const uint16_t *p)
{
    vec v;
    for (size_t i = 0; i < LANES; i++)
        v.lane[i] = f16_to_float(p[i]);
    return v;
}

static inline vec vec_load_bf16(const uint16_t *p)
{
    vec v;
    for (size_t i = 0; i < LANES; i++)
        v.lane[i] = bf16_to_float(p[i]);
    return v;
}

#include "dot_products.h"

void kernels_init_portable(struct kernels *kernels)
{
    fill_table(kernels);
}
