/* random_bits.h — 64 random bits from the system, for request ids.  Any thread. */
#ifndef HTTP_RANDOM_BITS_H
#define HTTP_RANDOM_BITS_H

#include <stdint.h>

uint64_t random_bits(void);

#endif
