/* Families and the series under them are two levels of lists that only grow: a link is published
 * once and never changes, so a scrape walks them without the lock and may allocate and call back.
 */
#include "base/metrics.h"

#include <assert.h>
#include <inttypes.h>
#include <locale.h>
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>

#include "base/mem.h"

const double metrics_seconds_bounds[METRICS_SECONDS_BOUNDS] = { .0005, .001, .0025, .005, .01, .025,
                                                                .05,   .1,   .25,   .5,   1,   2.5,
                                                                5,     10,   30,    60,   120 };

struct counter {
    _Atomic double value;
};

struct gauge {
    _Atomic double value;
};

struct histogram {
    _Atomic double sum;
    double *bounds; /* (bound_count), rising, owned */
    size_t bound_count;
    atomic_uint_fast64_t *buckets; /* (bound_count + 1), the last is what lies above; owned */
};

enum kind { KIND_COUNTER, KIND_GAUGE, KIND_HISTOGRAM };
static const char *const kind_names[] = { "counter", "gauge", "histogram" };

struct series {
    char *labels; /* owned */
    union {
        struct counter counter;
        struct gauge gauge;
        struct histogram histogram;
    };
    double (*read)(void *context); /* when set, the value is asked for */
    void *context;
    atomic_bool hidden;
    struct series *_Atomic next;
};

struct family {
    char *name, *help; /* owned */
    enum kind kind;
    struct series *_Atomic first;
    struct family *_Atomic next;
};

struct metrics {
    pthread_mutex_t lock; /* who appends to a list */
    locale_t locale;      /* "C": numbers have a point whatever the process is set to */
    struct family *_Atomic first;
};

/* What a caller gets when there is no memory: counted in, never printed. */
static struct counter unread_counter;
static struct gauge unread_gauge;
static atomic_uint_fast64_t unread_bucket;
static struct histogram unread_histogram = { .buckets = &unread_bucket };

static void series_free(enum kind kind, struct series *series)
{
    if (!series)
        return;
    if (kind == KIND_HISTOGRAM) {
        mem_free(series->histogram.bounds);
        mem_free(series->histogram.buckets);
    }
    mem_free(series->labels);
    mem_free(series);
}

static void family_free(struct family *family)
{
    if (!family)
        return;
    for (struct series *s = family->first; s;) {
        struct series *next = s->next;
        series_free(family->kind, s);
        s = next;
    }
    mem_free(family->name);
    mem_free(family->help);
    mem_free(family);
}

struct metrics *metrics_create(void)
{
    struct metrics *metrics = mem_alloc(1, sizeof *metrics);
    if (!metrics)
        return NULL;
    metrics->locale = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    if (!metrics->locale || pthread_mutex_init(&metrics->lock, NULL) != 0) {
        if (metrics->locale)
            freelocale(metrics->locale);
        mem_free(metrics);
        return NULL;
    }
    return metrics;
}

void metrics_destroy(struct metrics *metrics)
{
    if (!metrics)
        return;
    for (struct family *f = metrics->first; f;) {
        struct family *next = f->next;
        family_free(f);
        f = next;
    }
    pthread_mutex_destroy(&metrics->lock);
    freelocale(metrics->locale);
    mem_free(metrics);
}

static struct family *family_create(const char *name, const char *help, enum kind kind)
{
    struct family *family = mem_alloc(1, sizeof *family);
    if (!family)
        return NULL;
    family->kind = kind;
    family->name = mem_text(name);
    family->help = mem_text(help);
    if (!family->name || !family->help) {
        family_free(family);
        return NULL;
    }
    return family;
}

static struct series *series_create(enum kind kind, const char *labels, const double *bounds,
                                    size_t count)
{
    struct series *series = mem_alloc(1, sizeof *series);
    if (!series)
        return NULL;
    series->labels = mem_text(labels);
    bool whole = series->labels;
    if (kind == KIND_HISTOGRAM) {
        struct histogram *h = &series->histogram;
        h->bound_count = count;
        h->bounds = mem_copy(bounds, count, sizeof *bounds);
        h->buckets = mem_alloc(count + 1, sizeof *h->buckets);
        whole = whole && h->bounds && h->buckets;
    }
    if (!whole) {
        series_free(kind, series);
        return NULL;
    }
    return series;
}

/* NULL: no family of that name, and *end is the link where the lock's holder may put it. */
static struct family *find_family(struct metrics *metrics, const char *name,
                                  struct family *_Atomic **end)
{
    *end = &metrics->first;
    for (struct family *f; (f = **end); *end = &f->next)
        if (strcmp(f->name, name) == 0)
            return f;
    return NULL;
}

/* The same for the series of those labels. */
static struct series *find_series(struct family *family, const char *labels,
                                  struct series *_Atomic **end)
{
    *end = &family->first;
    for (struct series *s; (s = **end); *end = &s->next)
        if (strcmp(s->labels, labels) == 0)
            return s;
    return NULL;
}

struct wanted {
    const char *name, *help, *labels;
    enum kind kind;
    const double *bounds; /* (count), histograms only */
    size_t count;
    double (*read)(void *context);
    void *context;
};

/* Without the lock; NULL: not there yet. */
static struct series *find(struct metrics *metrics, const struct wanted *wanted)
{
    struct family *_Atomic *family_end;
    struct series *_Atomic *end;
    struct family *family = find_family(metrics, wanted->name, &family_end);
    assert(!family || family->kind == wanted->kind);
    return family ? find_series(family, wanted->labels, &end) : NULL;
}

/* Puts in what is not there and takes it from the caller. */
static struct series *append(struct metrics *metrics, struct family **family,
                             struct series **series)
{
    struct family *_Atomic *family_end;
    struct series *_Atomic *end;
    struct family *home = find_family(metrics, (*family)->name, &family_end);
    if (!home) {
        home = *family;
        *family_end = home;
        *family = NULL;
    }
    struct series *place = find_series(home, (*series)->labels, &end);
    if (!place) {
        place = *series;
        *end = place;
        *series = NULL;
    }
    return place;
}

/* Both parts are made before the lock is taken, since nothing is allocated under it, and dropped
 * when another thread was first.  NULL: no memory. */
static struct series *make(struct metrics *metrics, const struct wanted *wanted)
{
    struct series *made = NULL;
    struct family *family = family_create(wanted->name, wanted->help, wanted->kind);
    struct series *series =
        series_create(wanted->kind, wanted->labels, wanted->bounds, wanted->count);
    if (family && series) {
        series->read = wanted->read;
        series->context = wanted->context;
        pthread_mutex_lock(&metrics->lock);
        made = append(metrics, &family, &series);
        pthread_mutex_unlock(&metrics->lock);
    }
    series_free(wanted->kind, series);
    family_free(family);
    return made;
}

static struct series *series_of(struct metrics *metrics, const struct wanted *wanted)
{
    struct series *series = find(metrics, wanted);
    if (!series)
        return make(metrics, wanted);
    if (series->hidden)
        series->hidden = false;
    return series;
}

struct counter *metrics_counter(struct metrics *metrics, const char *name, const char *help,
                                const char *labels)
{
    struct series *series =
        series_of(metrics, &(struct wanted){ name, help, labels, .kind = KIND_COUNTER });
    return series ? &series->counter : &unread_counter;
}

struct gauge *metrics_gauge(struct metrics *metrics, const char *name, const char *help,
                            const char *labels)
{
    struct series *series =
        series_of(metrics, &(struct wanted){ name, help, labels, .kind = KIND_GAUGE });
    return series ? &series->gauge : &unread_gauge;
}

struct histogram *metrics_histogram(struct metrics *metrics, const char *name, const char *help,
                                    const char *labels, const double *bounds, size_t count)
{
    struct series *series = series_of(
        metrics, &(struct wanted){ name, help, labels, KIND_HISTOGRAM, bounds, count, NULL, NULL });
    return series ? &series->histogram : &unread_histogram;
}

static bool is_counter_name(const char *name)
{
    const size_t length = strlen(name), suffix = strlen("_total");
    return length > suffix && strcmp(name + length - suffix, "_total") == 0;
}

void metrics_read(struct metrics *metrics, const char *name, const char *help, const char *labels,
                  double (*read)(void *context), void *context)
{
    const enum kind kind = is_counter_name(name) ? KIND_COUNTER : KIND_GAUGE;
    series_of(metrics, &(struct wanted){ name, help, labels, kind, NULL, 0, read, context });
}

/* Relaxed: a value orders nothing but itself. */
static void add(_Atomic double *value, double amount)
{
    double old = atomic_load_explicit(value, memory_order_relaxed);
    while (!atomic_compare_exchange_weak_explicit(value, &old, old + amount, memory_order_relaxed,
                                                  memory_order_relaxed))
        ;
}

void counter_add(struct counter *counter, double amount)
{
    assert(amount >= 0);
    add(&counter->value, amount);
}

double counter_value(const struct counter *counter)
{
    return atomic_load_explicit(&counter->value, memory_order_relaxed);
}

void gauge_set(struct gauge *gauge, double value)
{
    atomic_store_explicit(&gauge->value, value, memory_order_relaxed);
}

void gauge_add(struct gauge *gauge, double amount)
{
    add(&gauge->value, amount);
}

double gauge_value(const struct gauge *gauge)
{
    return atomic_load_explicit(&gauge->value, memory_order_relaxed);
}

void histogram_observe(struct histogram *histogram, double value)
{
    size_t i = 0;
    while (i < histogram->bound_count && !(value <= histogram->bounds[i]))
        i++;
    atomic_fetch_add_explicit(&histogram->buckets[i], 1, memory_order_relaxed);
    add(&histogram->sum, value);
}

/* A backslash before every byte of `special`; a line feed as \n. */
static void escape(struct buffer *out, const char *text, const char *special)
{
    for (; *text; text++) {
        if (*text == '\n') {
            buffer_text(out, "\\n");
            continue;
        }
        if (strchr(special, *text))
            buffer_append(out, "\\", 1);
        buffer_append(out, text, 1);
    }
}

void metrics_label(struct buffer *out, const char *name, const char *value)
{
    if (out->length)
        buffer_text(out, ",");
    buffer_printf(out, "%s=\"", name);
    escape(out, value, "\\\"");
    buffer_text(out, "\"");
}

static bool has_label(const char *labels, const char *label)
{
    const size_t length = strlen(label);
    for (const char *at = labels; (at = strstr(at, label)); at++)
        if ((at == labels || at[-1] == ',') && (at[length] == ',' || at[length] == '\0'))
            return true;
    return false;
}

static void hide(struct family *family, const char *label)
{
    for (struct series *s = family->first; s; s = s->next)
        if (has_label(s->labels, label))
            s->hidden = true;
}

void metrics_hide(struct metrics *metrics, const char *family, const char *name, const char *value)
{
    struct buffer label;
    buffer_init(&label, 4096);
    metrics_label(&label, name, value);
    if (label.state == BUFFER_OK)
        for (struct family *f = metrics->first; f; f = f->next)
            if (!family || strcmp(f->name, family) == 0)
                hide(f, label.data);
    buffer_free(&label);
}

/* 16 digits: whole numbers up to 2^53 are exact and 0.1 is "0.1". */
static void render_value(struct buffer *out, double value)
{
    if (isnan(value))
        buffer_text(out, " NaN\n");
    else if (isinf(value))
        buffer_text(out, value > 0 ? " +Inf\n" : " -Inf\n");
    else
        buffer_printf(out, " %.16g\n", value);
}

static void render_braces(struct buffer *out, const char *labels)
{
    if (*labels)
        buffer_printf(out, "{%s}", labels);
}

/* Each bucket is read once and the sum of what was read is printed: whatever is observed meanwhile,
 * the buckets rise and +Inf is _count. */
static void render_histogram(struct buffer *out, const char *name, const char *labels,
                             const struct histogram *h)
{
    const char *comma = *labels ? "," : "";
    uint64_t total = 0;
    for (size_t i = 0; i <= h->bound_count; i++) {
        total += atomic_load_explicit(&h->buckets[i], memory_order_relaxed);
        buffer_printf(out, "%s_bucket{%s%sle=\"", name, labels, comma);
        if (i < h->bound_count)
            buffer_printf(out, "%g", h->bounds[i]);
        else
            buffer_text(out, "+Inf");
        buffer_printf(out, "\"} %" PRIu64 "\n", total);
    }
    buffer_printf(out, "%s_sum", name);
    render_braces(out, labels);
    render_value(out, atomic_load_explicit(&h->sum, memory_order_relaxed));
    buffer_printf(out, "%s_count", name);
    render_braces(out, labels);
    buffer_printf(out, " %" PRIu64 "\n", total);
}

static void render_family(struct buffer *out, struct family *family)
{
    buffer_printf(out, "# HELP %s ", family->name);
    escape(out, family->help, "\\");
    buffer_printf(out, "\n# TYPE %s %s\n", family->name, kind_names[family->kind]);
    for (struct series *s = family->first; s; s = s->next) {
        if (s->hidden)
            continue;
        if (family->kind == KIND_HISTOGRAM) {
            render_histogram(out, family->name, s->labels, &s->histogram);
            continue;
        }
        buffer_text(out, family->name);
        render_braces(out, s->labels);
        if (s->read)
            render_value(out, s->read(s->context));
        else
            render_value(out, family->kind == KIND_COUNTER ? counter_value(&s->counter)
                                                           : gauge_value(&s->gauge));
    }
}

void metrics_render(struct metrics *metrics, struct buffer *out)
{
    const locale_t before = uselocale(metrics->locale);
    for (struct family *f = metrics->first; f; f = f->next)
        render_family(out, f);
    uselocale(before);
}
