/* lane_sums_avx2.h — the sums of the lanes of eight vectors at once.  For every x86 kernel set. */
#ifndef KERNELS_LANE_SUMS_AVX2_H
#define KERNELS_LANE_SUMS_AVX2_H

#include <immintrin.h>

/* out[i] = ((v0 + v4) + (v2 + v6)) + ((v1 + v5) + (v3 + v7)) of v[i], the order of vec_sum(). */
static inline void lane_sums(const __m256 v[8], float out[8])
{
    __m256 four[4], two[2];
    for (int i = 0; i < 4; i++) /* of v[i], and of v[i + 4] in the upper half */
        four[i] = _mm256_add_ps(_mm256_blend_ps(v[i], v[i + 4], 0xf0),
                                _mm256_permute2f128_ps(v[i], v[i + 4], 0x21));
    for (int i = 0; i < 2; i++)
        two[i] = _mm256_add_ps(_mm256_unpacklo_ps(four[2 * i], four[2 * i + 1]),
                               _mm256_unpackhi_ps(four[2 * i], four[2 * i + 1]));
    _mm256_storeu_ps(out, _mm256_add_ps(_mm256_shuffle_ps(two[0], two[1], 0x44),
                                        _mm256_shuffle_ps(two[0], two[1], 0xee)));
}

#endif
