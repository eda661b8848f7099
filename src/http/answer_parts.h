/* answer_parts.h — the pieces of answer.c. */
#ifndef HTTP_ANSWER_PARTS_H
#define HTTP_ANSWER_PARTS_H

#include "answer.h"
#include "http/writer.h"

/* The fields of the answer between "model" and "usage".  answer_generate_rows() returns −1 without
 * memory for the texts. */
void answer_encode_rows(struct writer *writer, const struct job *job);
int answer_generate_rows(struct writer *writer, const struct job *job);
void answer_score_rows(struct writer *writer, const struct job *job);

/* "truncated" and "token_ids", for rows that have them. */
void answer_row_extras(struct writer *writer, const struct job *job, size_t index);

/* (layers, heads, queries, keys), or null. */
void answer_attentions(struct writer *writer, const char *name, const float *values, size_t layers,
                       size_t heads, size_t queries, size_t keys);

/* [[{"id", "logprob"}, …], …] of (places, count) candidates; unused ones have id −1. */
void answer_candidates(struct writer *writer, const struct token_logprob *candidates, size_t places,
                       size_t count);

#endif
