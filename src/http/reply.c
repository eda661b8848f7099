#include "reply.h"

#include <stdio.h>

#include "base/mem.h"

enum { ERROR_BYTES_MAX = 8192 };

void reply_error(struct reply *reply, const struct error *error)
{
    const struct error_row *row = error_table_row(error->code);
    buffer_free(&reply->body);
    buffer_init(&reply->body, ERROR_BYTES_MAX);
    error_table_write(&reply->body, error);
    reply->status = row->status;
    reply->retry_later = row->retry_later;
    reply->never_retry = row->never_retry;
    reply->wants_key = row->status == MHD_HTTP_UNAUTHORIZED;
}

static struct MHD_Response *response_create(struct reply *reply)
{
    /* The one text that needs no memory. */
    static char no_memory[] = "{\"error\":{\"type\":\"server_error\",\"code\":\"no_memory\","
                              "\"param\":null,\"message\":\"no memory for the answer\"}}";
    if (reply->status == MHD_HTTP_NO_CONTENT)
        return MHD_create_response_from_buffer(0, NULL, MHD_RESPMEM_PERSISTENT);
    size_t length = 0;
    char *body = buffer_take(&reply->body, &length);
    if (!body) {
        reply->status = MHD_HTTP_SERVICE_UNAVAILABLE;
        reply->retry_later = true;
        return MHD_create_response_from_buffer(sizeof no_memory - 1, no_memory,
                                               MHD_RESPMEM_PERSISTENT);
    }
    struct MHD_Response *response =
        MHD_create_response_from_buffer_with_free_callback(length, body, mem_free);
    if (!response)
        mem_free(body);
    return response;
}

enum MHD_Result reply_send(struct reply *reply, struct MHD_Connection *connection,
                           const char *request_id)
{
    struct MHD_Response *response = response_create(reply);
    if (!response)
        return MHD_NO;
    if (reply->status != MHD_HTTP_NO_CONTENT)
        MHD_add_response_header(response, "Content-Type",
                                reply->content_type ? reply->content_type : "application/json");
    cors_add_headers(&reply->cors, response);
    MHD_add_response_header(response, "X-Request-Id", request_id);
    if (reply->allow)
        MHD_add_response_header(response, "Allow", reply->allow);
    if (reply->wants_key)
        MHD_add_response_header(response, "WWW-Authenticate", "Bearer");
    if (reply->retry_later) {
        char seconds[12];
        snprintf(seconds, sizeof seconds, "%u", reply->retry_after_s ? reply->retry_after_s : 1);
        MHD_add_response_header(response, "Retry-After", seconds);
    }
    if (reply->never_retry)
        MHD_add_response_header(response, "x-should-retry", "false");
    if (reply->close)
        MHD_add_response_header(response, "Connection", "close");
    const enum MHD_Result result = MHD_queue_response(connection, reply->status, response);
    MHD_destroy_response(response);
    return result;
}
