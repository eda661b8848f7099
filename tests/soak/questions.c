#include "questions.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

uint32_t questions_draw(uint64_t *state, uint32_t below)
{
    /* splitmix64 */
    uint64_t z = *state += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return (uint32_t)(((z ^ (z >> 31)) >> 32) * below >> 32);
}

struct model {
    const char *name;
    uint32_t first_id, source_ids, target_ids,
        end; /* ids from first_id to below these are tokens */
    uint32_t length_max;
};

static const struct model models[] = {
    { "g2p", 4, 33, 73, 3, 60 },
    { "t5", 2, 71, 71, 1, 200 },
    { "vanilla_nopos", 4, 84, 73, 3, 120 },
};
enum { MODEL_COUNT = sizeof models / sizeof models[0] };

struct writer {
    FILE *out;
    uint64_t state;
    const struct model *model;
    bool longest;
};

static uint32_t draw(struct writer *writer, uint32_t below)
{
    return questions_draw(&writer->state, below);
}

/* Mostly short and few, now and then long or many; never both, or a request would take seconds. */
static void draw_shape(struct writer *writer, uint32_t *rows, uint32_t *length_max)
{
    static const struct {
        uint32_t rows, length;
    } shapes[] = { { 1, 12 }, { 1, 12 }, { 4, 20 }, { 16, 30 }, { 64, 10 }, { 2, 200 } };
    const uint32_t i = draw(writer, sizeof shapes / sizeof shapes[0]);
    *rows = 1 + draw(writer, shapes[i].rows);
    *length_max =
        shapes[i].length < writer->model->length_max ? shapes[i].length : writer->model->length_max;
}

/* Rows of a random length up to the longest, or all of the longest. */
static void write_rows(struct writer *writer, const char *field, uint32_t rows, uint32_t length_max,
                       uint32_t ids)
{
    const struct model *model = writer->model;
    fprintf(writer->out, ",\"%s\":[", field);
    for (uint32_t row = 0; row < rows; row++) {
        fprintf(writer->out, "%s[", row ? "," : "");
        for (uint32_t left = writer->longest ? length_max - 1 : draw(writer, length_max); left > 0;
             left--)
            fprintf(writer->out, "%u,", model->first_id + draw(writer, ids - model->first_id));
        fprintf(writer->out, "%u]", model->end);
    }
    fputc(']', writer->out);
}

static void write_texts(struct writer *writer, uint32_t rows)
{
    fputs(",\"inputs\":[", writer->out);
    for (uint32_t row = 0; row < rows; row++) {
        fprintf(writer->out, "%s\"", row ? "," : "");
        for (uint32_t left = 1 + draw(writer, 14); left > 0; left--)
            fputc('a' + (int)draw(writer, 26), writer->out);
        fputc('"', writer->out);
    }
    fputc(']', writer->out);
}

static const char *write_encode(struct writer *writer)
{
    static const char *const options[] = { "\"mean\"",
                                           "\"max\"",
                                           "\"cls\",\"normalize\":true",
                                           "\"last\",\"encoding_format\":\"base64\"",
                                           "\"none\"",
                                           "\"none\",\"output_attentions\":true" };
    fprintf(writer->out, ",\"pooling\":%s",
            options[draw(writer, sizeof options / sizeof options[0])]);
    return "/v1/encode";
}

static const char *write_generate(struct writer *writer, uint32_t rows)
{
    const uint32_t new_tokens = 1 + draw(writer, rows > 16 ? 8 : 32);
    fprintf(writer->out, ",\"parameters\":{\"max_new_tokens\":%u", new_tokens);
    switch (draw(writer, 6)) {
    case 0:
        fprintf(writer->out, ",\"do_sample\":true,\"seed\":%u,\"top_k\":%u,\"temperature\":0.8",
                draw(writer, 1000000), 1 + draw(writer, 20));
        break;
    case 1:
        fprintf(writer->out,
                ",\"do_sample\":true,\"seed\":%u,\"top_p\":0.9,"
                "\"num_return_sequences\":%u",
                draw(writer, 1000000), 1 + draw(writer, 4));
        break;
    case 2:
        fprintf(writer->out, ",\"num_beams\":%u", 2 + draw(writer, 4));
        break;
    case 3:
        fputs(",\"num_beams\":4,\"num_return_sequences\":2,\"length_penalty\":0.7,"
              "\"early_stopping\":true,\"output_attentions\":true",
              writer->out);
        break;
    case 4:
        fputs(",\"logprobs\":2,\"repetition_penalty\":1.2,\"no_repeat_ngram_size\":2", writer->out);
        break;
    default: /* greedy */
        break;
    }
    fputc('}', writer->out);
    return "/v1/generate";
}

char *question_write(uint64_t number, const char **path)
{
    char *body = NULL;
    size_t bytes;
    struct writer writer = { .out = open_memstream(&body, &bytes), .state = number };
    if (!writer.out)
        abort();
    writer.model = &models[draw(&writer, MODEL_COUNT)];
    uint32_t rows, length_max;
    draw_shape(&writer, &rows, &length_max);
    fprintf(writer.out, "{\"model\":\"%s\"", writer.model->name);
    const uint32_t kind = draw(&writer, 4);
    if (writer.model == &models[0] && kind != 3)
        write_texts(&writer, rows);
    else
        write_rows(&writer, "input_ids", rows, length_max, writer.model->source_ids);
    if (kind == 0) {
        *path = write_encode(&writer);
    } else if (kind == 3) {
        write_rows(&writer, "target_ids", rows, length_max, writer.model->target_ids);
        *path = "/v1/score";
    } else {
        *path = write_generate(&writer, rows);
    }
    fputc('}', writer.out);
    if (fclose(writer.out) != 0)
        abort();
    return body;
}

char *question_write_large(size_t i, const char **path)
{
    static const struct {
        uint32_t rows, length_max; /* no row is longer than its model's longest */
        const char *path, *end;
    } kinds[] = {
        { 64, 64, "/v1/encode", ",\"pooling\":\"mean\"}" },
        { 24, 12, "/v1/generate",
          ",\"parameters\":{\"num_beams\":5,\"max_new_tokens\":32,\"min_new_tokens\":32}}" },
        { 2, 200, "/v1/encode", ",\"pooling\":\"none\",\"output_attentions\":true}" },
    };
    char *body = NULL;
    size_t bytes;
    const size_t kind = i / MODEL_COUNT;
    struct writer writer = { .out = open_memstream(&body, &bytes),
                             .state = i,
                             .model = &models[i % MODEL_COUNT],
                             .longest = true };
    if (!writer.out)
        abort();
    const uint32_t own = writer.model->length_max, length_max = kinds[kind].length_max;
    fprintf(writer.out, "{\"model\":\"%s\"", writer.model->name);
    write_rows(&writer, "input_ids", kinds[kind].rows, length_max < own ? length_max : own,
               writer.model->source_ids);
    fputs(kinds[kind].end, writer.out);
    *path = kinds[kind].path;
    if (fclose(writer.out) != 0)
        abort();
    return body;
}

void questions_open(struct questions *questions)
{
    *questions = (struct questions){ .lock = PTHREAD_MUTEX_INITIALIZER };
    for (size_t i = 0; i < QUESTION_COUNT; i++)
        questions->all[i].body = question_write(i, &questions->all[i].path);
}

void questions_close(struct questions *questions)
{
    for (size_t i = 0; i < QUESTION_COUNT; i++) {
        free(questions->all[i].body);
        free(questions->all[i].first);
    }
    pthread_mutex_destroy(&questions->lock);
}

/* The one part of an answer that may differ. */
static void cut_timing(char *answer)
{
    char *timing = strstr(answer, "\"timing\":{");
    char *end = timing ? strchr(timing, '}') : NULL;
    if (end)
        memmove(timing, end + 1, strlen(end + 1) + 1);
}

bool questions_agree(struct questions *questions, size_t i, struct wire_answer *answer)
{
    struct question *question = &questions->all[i];
    cut_timing(answer->bytes);
    pthread_mutex_lock(&questions->lock);
    if (!question->first)
        question->first = strdup(answer->bytes);
    const bool same = question->first && strcmp(question->first, answer->bytes) == 0;
    pthread_mutex_unlock(&questions->lock);
    return same;
}
