/* error.h — what went wrong, once, where it was known.
 *
 * A function that can fail returns 0 or -1 (or a pointer or NULL) and takes a `struct error *`
 * last. The first error wins: a caller on the way up may not replace it.  `http` maps a code to a
 * status and a JSON code in one table (src/http/error_table.c). */
#ifndef BASE_ERROR_H
#define BASE_ERROR_H

enum error_code {
    ERR_NONE,
    /* the daemon's own: files, models, configuration */
    ERR_NO_MEMORY,
    ERR_IO,
    ERR_BAD_MODEL,
    ERR_CONFIG,
    /* a request that is wrong, or that this model cannot serve: 400 */
    ERR_BAD_JSON,
    ERR_WRONG_TYPE,
    ERR_UNKNOWN_FIELD,
    ERR_MISSING_FIELD,
    ERR_OUT_OF_RANGE,
    ERR_TOKEN_OUT_OF_RANGE,
    ERR_MASK_SHAPE,
    ERR_EMPTY_ROW,
    ERR_TOO_LONG,
    ERR_UNSUPPORTED,
    /* a request of nobody known: 401 */
    ERR_NO_KEY,
    ERR_WRONG_KEY,
    /* a request that goes elsewhere: 403, 404, 405, 415 */
    ERR_FORBIDDEN,
    ERR_NO_ROUTE,
    ERR_NO_MODEL,
    ERR_METHOD,
    ERR_MEDIA_TYPE,
    /* 413: a configured limit of one request */
    ERR_OVER_LIMIT,
    /* 429, 503, 504 */
    ERR_BUSY,
    ERR_TOO_OFTEN,
    ERR_LOADING,
    ERR_SHUTTING_DOWN,
    ERR_DEADLINE,
    ERR_CLIENT_GONE,
    /* 500 */
    ERR_NONFINITE,
    ERR_INTERNAL,
    ERROR_CODE_COUNT
};

struct error {
    enum error_code code;
    char param[128];   /* the field at fault, as "input_ids[3][7]"; empty when there is none */
    char message[512]; /* one sentence; names field, value and limit where they exist */
};

/* Fills *err unless it holds an error already.  Returns -1, so that `return error_set(…)` reads
 * well. */
int error_set(struct error *err, enum error_code code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* The same, with the field at fault in `param`. */
int error_at(struct error *err, enum error_code code, const char *param, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

#endif
