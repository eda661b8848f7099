/* clock.h — time. */
#ifndef BASE_CLOCK_H
#define BASE_CLOCK_H

#include <stdint.h>

/* Nanoseconds of the monotonic clock: for waits, deadlines and durations. */
uint64_t clock_ns(void);

/* Seconds since 1970 of the wall clock: for logs and timestamps in /metrics. */
double clock_unix_seconds(void);

/* Rounded up, for what is told or set in whole seconds. */
unsigned clock_whole_seconds(uint64_t ns);

#define NS_PER_MS UINT64_C(1000000)
#define NS_PER_S  UINT64_C(1000000000)

#endif
