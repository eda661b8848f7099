/* metrics.h — counters, gauges and histograms, and their text for /metrics (exposition format
 * 0.0.4).
 *
 * Series are made once, under the registry's lock (a leaf), and live as long as the registry.
 * Updates are atomic and lock-free, from any thread.  A histogram's buckets are read into one
 * snapshot before they are printed, so that inside one scrape they are cumulative and +Inf equals
 * _count. */
#ifndef BASE_METRICS_H
#define BASE_METRICS_H

#include <stddef.h>
#include <stdint.h>

#include "base/buffer.h"

struct metrics;
struct counter;
struct gauge;
struct histogram;

struct metrics *metrics_create(void); /* NULL: no memory */
void metrics_destroy(struct metrics *metrics);

/* The series of that name and labels, made if it is not there; never NULL (without memory the
 * process has a series nobody reads).  `help` and the kind of the first call hold.  `labels` is the
 * inside of the braces, escaped with metrics_label(), or "". */
struct counter *metrics_counter(struct metrics *metrics, const char *name, const char *help,
                                const char *labels);
struct gauge *metrics_gauge(struct metrics *metrics, const char *name, const char *help,
                            const char *labels);
struct histogram *metrics_histogram(struct metrics *metrics, const char *name, const char *help,
                                    const char *labels, const double *bounds, size_t count);

/* A gauge, or a counter if the name ends in _total, whose value is asked for at each scrape. */
void metrics_read(struct metrics *metrics, const char *name, const char *help, const char *labels,
                  double (*read)(void *context), void *context);

/* The buckets of every duration, seconds: half a millisecond, a step of a small model, to two
 * minutes, a request with all its waiting.  One list, so that durations can be compared. */
enum { METRICS_SECONDS_BOUNDS = 17 };
extern const double metrics_seconds_bounds[METRICS_SECONDS_BOUNDS];

void counter_add(struct counter *counter, double amount); /* amount ≥ 0 */
double counter_value(const struct counter *counter);
void gauge_set(struct gauge *gauge, double value);
void gauge_add(struct gauge *gauge, double amount);
double gauge_value(const struct gauge *gauge);
void histogram_observe(struct histogram *histogram, double value);

/* Appends name="value" to `out`, escaped, with a comma before it unless it is the first there. */
void metrics_label(struct buffer *out, const char *name, const char *value);

/* Series of the family (NULL: of any) that carry this label are not rendered until they are asked
 * for again; they keep their values. */
void metrics_hide(struct metrics *metrics, const char *family, const char *name, const char *value);

/* The whole registry, families in the order of their making, each with one HELP and one TYPE. */
void metrics_render(struct metrics *metrics, struct buffer *out);

#endif
