#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "soak.h"

static const struct wire_pace at_once = { 0 };

/* A request that takes long, in rows of the model that has no longest one. */
#define SLOW                                                                                       \
    "{\"model\":\"vanilla_nopos\",\"input_ids\":[[5,6,7,3],[8,9,3],[10,3]],"                       \
    "\"parameters\":{\"num_beams\":8,\"max_new_tokens\":2000,\"min_new_tokens\":2000}"

/* Input of all kinds that is refused, and how. */
static const struct {
    int status;
    const char *path, *body;
} bad_inputs[] = {
    { 400, "/v1/encode", "{" },
    { 400, "/v1/encode", "[[5,6]]" },
    { 400, "/v1/encode", "{\"model\":\"t5\"}" },
    { 400, "/v1/encode", "{\"model\":\"t5\",\"input_ids\":[[5,71]]}" },
    { 400, "/v1/encode", "{\"model\":\"t5\",\"input_ids\":[[5,1.0]]}" },
    { 400, "/v1/encode", "{\"model\":\"t5\",\"input_ids\":[[5],[]]}" },
    { 400, "/v1/encode", "{\"model\":\"t5\",\"input_ids\":[[5]],\"input_ids\":[[6]]}" },
    { 400, "/v1/encode", "{\"model\":\"t5\",\"input_ids\":[[5]],\"colour\":1}" },
    { 400, "/v1/encode", "{\"model\":\"t5\",\"input_ids\":[[5]],\"attention_mask\":[[0]]}" },
    { 400, "/v1/encode", "{\"model\":\"t5\",\"input_ids\":[[5]],\"attention_mask\":[[1,1]]}" },
    { 400, "/v1/generate", "{\"model\":\"g2p\",\"inputs\":[\"\xff\"]}" },
    { 400, "/v1/generate", "{\"model\":\"g2p\",\"inputs\":[\"a\"],\"parameters\":{\"x\":1}}" },
    { 400, "/v1/generate",
      "{\"model\":\"g2p\",\"inputs\":[\"a\"],\"parameters\":{\"num_beams\":0}}" },
    { 413, "/v1/generate",
      "{\"model\":\"g2p\",\"inputs\":[\"a\"],\"parameters\":{\"num_beams\":17}}" },
    { 400, "/v1/score", "{\"model\":\"t5\",\"input_ids\":[[5]],\"target_ids\":[[5],[6]]}" },
    { 400, "/v1/score", "{\"model\":\"t5\",\"input_ids\":[[5]],\"target_ids\":[[1e400]]}" },
    { 404, "/v1/encode", "{\"model\":\"nobody\",\"input_ids\":[[5]]}" },
    { 404, "/v1/nowhere", "{}" },
    { 405, "/livez", "{}" },
    { 405, "/v1/encode", "" },
};

/* `late`: with so little time also 504, or 429 when the queue cannot serve it in time. */
static void expect(struct soak *soak, const char *path, const char *body, int status, bool late)
{
    struct wire_answer answer;
    const int rc = wire_ask(soak->port, path, body, &answer);
    const bool is_late = late && (answer.status == 504 || answer.status == 429);
    if (rc < 0 || (answer.status != status && !is_late)) {
        soak->misjudged++;
        soak_fault(soak, "%d instead of %d for %s %.200s: %.200s", answer.status, status, path,
                   body, answer.bytes ? answer.bytes : "");
    }
    free(answer.bytes);
}

static void ask_badly(struct soak *soak, uint64_t *state)
{
    const uint32_t i = questions_draw(state, sizeof bad_inputs / sizeof bad_inputs[0]);
    expect(soak, bad_inputs[i].path, bad_inputs[i].body, bad_inputs[i].status, false);
}

static void be_late(struct soak *soak, uint64_t *state)
{
    char body[512];
    const bool partial = questions_draw(state, 2);
    snprintf(body, sizeof body, SLOW ",\"timeout_ms\":%u%s}", 1 + questions_draw(state, 60),
             partial ? ",\"partial\":true" : "");
    expect(soak, "/v1/generate", body, partial ? 200 : 504, true);
}

/* Leaves after part of a request, while it is queued or running, or after part of the answer. */
static void leave(struct soak *soak, uint64_t *state)
{
    const struct question *question = &soak->questions.all[questions_draw(state, QUESTION_COUNT)];
    size_t length;
    char *request = questions_draw(state, 2)
                        ? wire_request("/v1/generate", SLOW "}", &length)
                        : wire_request(question->path, question->body, &length);
    const bool in_upload = questions_draw(state, 3) == 0;
    const struct wire_pace pace = { length / 4 + 1, questions_draw(state, 8) };
    const int fd = wire_open(soak->port);
    if (in_upload)
        length = questions_draw(state, (uint32_t)length);
    if (fd >= 0 && wire_send(fd, request, length, pace) == 0) {
        char start[256];
        struct pollfd answered = { .fd = fd, .events = POLLIN };
        if (!in_upload && poll(&answered, 1, (int)questions_draw(state, 60)) > 0)
            (void)!recv(fd, start, sizeof start, 0);
    }
    if (questions_draw(state, 2))
        wire_reset(fd);
    else
        wire_close(fd);
    free(request);
}

static void send_garbage(struct soak *soak, uint64_t *state)
{
    char garbage[300];
    const size_t length = 1 + questions_draw(state, sizeof garbage);
    for (size_t i = 0; i < length; i++)
        garbage[i] = (char)questions_draw(state, 256);
    const int fd = wire_open(soak->port);
    if (fd >= 0)
        wire_send(fd, garbage, length, at_once);
    wire_close(fd);
}

static void look_around(struct soak *soak, uint64_t *state)
{
    static const char *const paths[] = { "/livez", "/readyz", "/metrics", "/v1/models",
                                         "/v1/models/g2p" };
    expect(soak, paths[questions_draw(state, sizeof paths / sizeof paths[0])], "", 200, false);
}

void soak_be_rude(struct soak *soak, uint64_t *state)
{
    static void (*const ways[])(struct soak *, uint64_t *) = {
        ask_badly, ask_badly, be_late, leave, leave, leave, send_garbage, look_around,
    };
    ways[questions_draw(state, sizeof ways / sizeof ways[0])](soak, state);
    soak->rude++;
}
