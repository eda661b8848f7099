#include "float_text.h"

#include <assert.h>
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { DIGITS_MIN = 6, DIGITS_MAX = 9 };

/* All exact in a double. */
static const double tens[] = { 1e0, 1e1, 1e2,  1e3,  1e4,  1e5,  1e6, 1e7,
                               1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14 };

/* True if text that reads as the double `value` reads as the float `wanted` too.  Next to the
 * middle of two floats, rounding twice (text to double to float) may differ from rounding once. */
static bool reads_as(double value, float wanted)
{
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    const int64_t from_middle = (int64_t)(bits & 0x1fffffff) - 0x10000000;
    return (float)value == wanted && (from_middle < -1 || from_middle > 1);
}

/* digits / 10^decimals in fixed notation. */
static size_t fixed_text(char *out, uint64_t digits, int decimals)
{
    while (decimals > 0 && digits % 10 == 0) {
        digits /= 10;
        decimals--;
    }
    char reversed[FLOAT_TEXT_MAX];
    size_t n = 0;
    for (int place = 0; digits || place <= decimals; place++) {
        if (place && place == decimals)
            reversed[n++] = '.';
        reversed[n++] = (char)('0' + digits % 10);
        digits /= 10;
    }
    for (size_t i = 0; i < n; i++)
        out[i] = reversed[n - 1 - i];
    out[n] = '\0';
    return n;
}

/* The everyday magnitudes, 1e-5 ≤ value < 1e9, by one multiplication and one check for each length
 * tried: an embedding has millions of numbers, and printf takes ten times as long.  0 if it cannot.
 */
static size_t quick_text(char *out, float value)
{
    int exponent = -5; /* 10^exponent ≤ value */
    while (exponent < 0 && value * tens[-exponent - 1] >= 1)
        exponent++;
    while (exponent >= 0 && value >= tens[exponent + 1])
        exponent++;
    for (int count = DIGITS_MIN; count <= DIGITS_MAX; count++) {
        const int decimals = count - 1 - exponent > 0 ? count - 1 - exponent : 0;
        const uint64_t digits = (uint64_t)(value * tens[decimals] + 0.5);
        if (reads_as((double)digits / tens[decimals], value))
            return fixed_text(out, digits, decimals);
    }
    return 0;
}

size_t float_text(char out[FLOAT_TEXT_MAX], float value)
{
    assert(isfinite(value));
    const size_t sign = value < 0;
    if (sign)
        out[0] = '-';
    const float magnitude = fabsf(value);
    if (value == 0) /* masked places are full of it */
        return fixed_text(out, 0, 0);
    if (magnitude >= 1e-5f && magnitude < 1e9f) {
        const size_t length = quick_text(out + sign, magnitude);
        if (length)
            return sign + length;
    }
    int length = 0;
    for (int count = DIGITS_MIN; count <= DIGITS_MAX; count++) {
        length = snprintf(out, FLOAT_TEXT_MAX, "%.*g", count, (double)value);
        if (strtof(out, NULL) == value)
            break;
    }
    return (size_t)length;
}
