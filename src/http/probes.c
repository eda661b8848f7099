#include "probes.h"

#include "answer.h"
#include "http/writer.h"

enum { TEXT_BYTES_MAX = 64 << 20 };

static void write_status(struct reply *reply, const char *text)
{
    struct writer writer = { .out = &reply->body };
    writer_begin(&writer, '{');
    writer_key(&writer, "status");
    writer_text(&writer, text);
    writer_end(&writer, '}');
}

static void answer_ready(struct reply *reply, const struct server *server,
                         const struct service *service)
{
    const bool draining = server->phase != SERVER_SERVING;
    if (!draining && service->registry) {
        write_status(reply, "ready");
        return;
    }
    reply->status = MHD_HTTP_SERVICE_UNAVAILABLE;
    reply->retry_later = true;
    write_status(reply, draining ? "draining" : "loading");
}

int probes_answer(struct reply *reply, const struct server *server, const struct service *service,
                  const struct admission *admission, struct error *err)
{
    buffer_init(&reply->body, TEXT_BYTES_MAX);
    switch (admission->route->kind) {
    case ROUTE_LIVE:
        write_status(reply, "ok");
        return 0;
    case ROUTE_READY:
        answer_ready(reply, server, service);
        return 0;
    case ROUTE_METRICS:
        reply->content_type = "text/plain; version=0.0.4; charset=utf-8";
        metrics_render(server->metrics, &reply->body);
        return 0;
    case ROUTE_MODELS:
        answer_models(&reply->body, service->registry, service->limits);
        return 0;
    case ROUTE_MODEL:
    case ROUTE_WORK:
        break;
    }
    const struct served_model *served = registry_find(service->registry, admission->name);
    if (!served)
        return error_at(err, ERR_NO_MODEL, "model", "there is no model \"%.128s\"",
                        admission->name);
    answer_model(&reply->body, served, service->limits);
    return 0;
}
