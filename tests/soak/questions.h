/* questions.h — good requests of many shapes, the same ones for the same number, and what was
 * answered to each at first. */
#ifndef QUESTIONS_H
#define QUESTIONS_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "wire.h"

#define QUESTION_COUNT 240

struct question {
    const char *path;
    char *body;
    char *first; /* the first answer without its timing; NULL until there is one */
};

struct questions {
    struct question all[QUESTION_COUNT];
    pthread_mutex_t lock; /* of `first` */
};

/* A small generator of its own in every thread. */
uint32_t questions_draw(uint64_t *state, uint32_t below);

/* The body, for the caller to free(), of good request `number`, any number. */
char *question_write(uint64_t number, const char **path);

/* The largest of their kind: all at once they fill what the daemon has reserved for a pass. */
#define LARGE_COUNT 9
char *question_write_large(size_t i, const char **path);

void questions_open(struct questions *questions);
void questions_close(struct questions *questions);

/* Whether the answer is the first one's, or is itself the first; it loses its timing. */
bool questions_agree(struct questions *questions, size_t i, struct wire_answer *answer);

#endif
