/* scale_halves.c — makes numbers of float32 of numbers of float16, multiplied.
 *   usage: scale_halves SPANS <HALVES >FLOATS
 * The file SPANS has lines `COUNT FACTOR`, for so many numbers, one span after the other.
 * Exit code 1: there are fewer numbers, or more. */
#include <math.h>
#include <stdint.h>
#include <stdio.h>

static double widened(uint16_t half)
{
    const int exponent = half >> 10 & 31, fraction = half & 1023;
    const double size = exponent ? ldexp(1024 + fraction, exponent - 25) : ldexp(fraction, -24);
    return half >> 15 ? -size : size;
}

int main(int argc, char *argv[])
{
    FILE *spans = argc == 2 ? fopen(argv[1], "r") : NULL;
    size_t count;
    double factor;
    uint16_t half;
    if (!spans)
        return 1;
    while (fscanf(spans, "%zu %lf", &count, &factor) == 2) {
        for (; count > 0; count--) {
            if (fread(&half, sizeof half, 1, stdin) != 1)
                return 1;
            const float number = (float)(widened(half) * factor);
            fwrite(&number, sizeof number, 1, stdout);
        }
    }
    fclose(spans);
    return getchar() != EOF;
}
