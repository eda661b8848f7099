#include "error_table.h"

#include <assert.h>

#include "http/writer.h"

#define WRONG "invalid_request_error"
#define OURS  "server_error"

static const struct error_row table[] = {
    [ERR_NONE] = { 500, OURS, "internal_error", false, true },
    [ERR_NO_MEMORY] = { 503, OURS, "no_memory", true, false },
    [ERR_IO] = { 500, OURS, "internal_error", false, true },
    [ERR_BAD_MODEL] = { 500, OURS, "internal_error", false, true },
    [ERR_CONFIG] = { 500, OURS, "internal_error", false, true },
    [ERR_BAD_JSON] = { 400, WRONG, "invalid_json", false, false },
    [ERR_WRONG_TYPE] = { 400, WRONG, "wrong_type", false, false },
    [ERR_UNKNOWN_FIELD] = { 400, WRONG, "unknown_field", false, false },
    [ERR_MISSING_FIELD] = { 400, WRONG, "missing_field", false, false },
    [ERR_OUT_OF_RANGE] = { 400, WRONG, "out_of_range", false, false },
    [ERR_TOKEN_OUT_OF_RANGE] = { 400, WRONG, "token_out_of_range", false, false },
    [ERR_MASK_SHAPE] = { 400, WRONG, "mask_shape", false, false },
    [ERR_EMPTY_ROW] = { 400, WRONG, "empty_row", false, false },
    [ERR_TOO_LONG] = { 400, WRONG, "too_long", false, false },
    [ERR_UNSUPPORTED] = { 400, WRONG, "unsupported", false, false },
    [ERR_NO_KEY] = { 401, "authentication_error", "missing_api_key", false, false },
    [ERR_WRONG_KEY] = { 401, "authentication_error", "invalid_api_key", false, false },
    [ERR_FORBIDDEN] = { 403, "permission_error", "forbidden", false, false },
    [ERR_NO_ROUTE] = { 404, WRONG, "route_not_found", false, false },
    [ERR_NO_MODEL] = { 404, WRONG, "model_not_found", false, false },
    [ERR_METHOD] = { 405, WRONG, "method_not_allowed", false, false },
    [ERR_MEDIA_TYPE] = { 415, WRONG, "unsupported_media_type", false, false },
    [ERR_OVER_LIMIT] = { 413, WRONG, "over_limit", false, false },
    [ERR_BUSY] = { 429, "rate_limit_error", "queue_full", true, false },
    [ERR_TOO_OFTEN] = { 429, "rate_limit_error", "rate_limited", true, false },
    [ERR_LOADING] = { 503, OURS, "loading", true, false },
    [ERR_SHUTTING_DOWN] = { 503, OURS, "shutting_down", true, false },
    [ERR_DEADLINE] = { 504, "timeout_error", "deadline_exceeded", false, true },
    /* Nobody reads this answer; the status is for the log and the metrics, as nginx has it. */
    [ERR_CLIENT_GONE] = { 499, WRONG, "client_gone", false, false },
    [ERR_NONFINITE] = { 500, OURS, "nonfinite_output", false, true },
    [ERR_INTERNAL] = { 500, OURS, "internal_error", false, true },
};
_Static_assert(sizeof table / sizeof *table == ERROR_CODE_COUNT, "every error has a row");

const struct error_row *error_table_row(enum error_code code)
{
    assert(table[code].status);
    return &table[code];
}

void error_table_write(struct buffer *out, const struct error *error)
{
    const struct error_row *row = error_table_row(error->code);
    struct writer writer = { .out = out };
    writer_begin(&writer, '{');
    writer_key(&writer, "error");
    writer_begin(&writer, '{');
    writer_key(&writer, "type");
    writer_text(&writer, row->type);
    writer_key(&writer, "code");
    writer_text(&writer, row->code);
    writer_key(&writer, "param");
    writer_text(&writer, error->param[0] ? error->param : NULL);
    writer_key(&writer, "message");
    writer_text(&writer, error->message);
    writer_end(&writer, '}');
    writer_end(&writer, '}');
}
