/* Sixteen floats at a time, and bfloat16 numbers in pairs. Compiles to whatever vectors the
   processor has; where it multiplies bfloat16 pairs in one instruction, that is used. */
#pragma once

#include <stdint.h>
#include <string.h>

#ifdef __AVX512F__
#include <immintrin.h>
#endif

#define INLINE static inline __attribute__((always_inline))
#define LANES 16

typedef uint16_t bf16;
typedef float floats __attribute__((vector_size(64), aligned(4), may_alias));
typedef int32_t ints __attribute__((vector_size(64), aligned(4), may_alias));
typedef int8_t bytes16 __attribute__((vector_size(16), aligned(1), may_alias));
typedef uint16_t halves __attribute__((vector_size(32), aligned(2), may_alias));

INLINE floats load(const float *from) { return *(const floats *)from; }
INLINE void store(float *to, floats values) { *(floats *)to = values; }
INLINE floats all(float value) { return value - (floats){0}; }

/* Rounded to the nearest, to even when between two, as every bfloat16 unit does. */
INLINE ints rounded_bits(floats values) {
    ints bits = (ints)values;
    return bits + 0x7fff + ((bits >> 16) & 1);
}

INLINE void store_bf16(bf16 *to, floats values) {
#ifdef __AVX512BF16__
    *(halves *)to = (halves)_mm512_cvtneps_pbh((__m512)values);
#else
    *(halves *)to = __builtin_convertvector(rounded_bits(values) >> 16 & 0xffff, halves);
#endif
}

/* 32 bytes as bfloat16 numbers, exactly. */
INLINE void store_bytes_as_bf16(bf16 *to, const int8_t *from) {
#ifdef __AVX512BF16__
    const __m256i bytes = _mm256_loadu_si256((const void *)from);
    const __m128i low = _mm256_castsi256_si128(bytes), high = _mm256_extracti128_si256(bytes, 1);
    const __m512 first = _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(low));
    const __m512 second = _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(high));
    _mm512_storeu_si512(to, (__m512i)_mm512_cvtne2ps_pbh(second, first));
#else
    for (int i = 0; i < 2; i++)
        store_bf16(to + LANES * i,
                   __builtin_convertvector(*(const bytes16 *)(from + LANES * i), floats));
#endif
}

INLINE bf16 to_bf16(float value) {
    uint32_t bits;
    memcpy(&bits, &value, 4);
    return (bf16)((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}

INLINE float to_float(bf16 value) {
    uint32_t bits = (uint32_t)value << 16;
    float result;
    memcpy(&result, &bits, 4);
    return result;
}

INLINE float sum_of(floats values) {
    float sum = 0;
    for (int i = 0; i < LANES; i++) sum += values[i];
    return sum;
}

INLINE float largest_of(floats values) {
#ifdef __AVX512F__
    return _mm512_reduce_max_ps((__m512)values);
#else
    float most = values[0];
    for (int i = 1; i < LANES; i++) most = values[i] > most ? values[i] : most;
    return most;
#endif
}

INLINE floats larger(floats a, floats b) {
    ints is_a = a > b;
    return (floats)(((ints)a & is_a) | ((ints)b & ~is_a));
}

/* e^x within 2 units in the last place; below -87 it is 0, above 88 it is e^88. */
INLINE floats exponential(floats x) {
    ints is_tiny = x < -87.0f;
    ints is_huge = x > 88.0f;
    x = (floats)(((ints)x & ~is_huge) | ((ints)all(88.0f) & is_huge));
    x = (floats)((ints)x & ~is_tiny);
    floats shifted = x * 1.44269504f + 12582912.0f; /* 1.5 * 2^23: the sum is a whole number */
    floats whole = shifted - 12582912.0f;
    floats rest = x - whole * 0.693359375f + whole * 2.12194440e-4f; /* ln 2 in two parts */
    floats power = rest * 1.9875691500e-4f + 1.3981999507e-3f;
    power = power * rest + 8.3334519073e-3f;
    power = power * rest + 4.1665795894e-2f;
    power = power * rest + 1.6666665459e-1f;
    power = power * rest + 5.0000001201e-1f;
    power = power * rest * rest + rest + 1.0f;
    ints exponent = __builtin_convertvector(whole, ints) << 23;
    return (floats)(((ints)power + exponent) & ~is_tiny);
}

/* sum + a0*w0 + a1*w1 in each lane, of pairs of bfloat16 numbers. */
INLINE floats add_products(floats sum, ints a, ints w) {
#ifdef __AVX512BF16__
    return (floats)_mm512_dpbf16_ps((__m512)sum, (__m512bh)a, (__m512bh)w);
#else
    const ints high = (ints)all(0) | (int32_t)0xffff0000;
    sum += (floats)(a << 16) * (floats)(w << 16);
    return sum + (floats)(a & high) * (floats)(w & high);
#endif
}

INLINE ints pair_in_all_lanes(const bf16 *pair) {
    int32_t bits;
    memcpy(&bits, pair, 4);
    return bits - (ints){0};
}

INLINE void prefetch(const void *address) { __builtin_prefetch(address, 0, 2); }
