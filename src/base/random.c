#include "base/random.h"

#include <errno.h>
#include <sys/random.h>

#include "base/clock.h"

uint64_t random_bits(void)
{
    uint64_t bits = 0;
    ssize_t got;
    do
        got = getrandom(&bits, sizeof bits, 0);
    while (got < 0 && errno == EINTR);
    /* A sandbox may forbid the call.  What is drawn needs to differ, not to be hard to guess. */
    return got == (ssize_t)sizeof bits ? bits : clock_ns() * UINT64_C(0x9e3779b97f4a7c15);
}
