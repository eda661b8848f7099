/* random.h — 64 random bits from the system, for request ids and seeds.  Any thread. */
#ifndef BASE_RANDOM_H
#define BASE_RANDOM_H

#include <stdint.h>

uint64_t random_bits(void);

#endif
