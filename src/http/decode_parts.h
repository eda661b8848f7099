/* decode_parts.h — the pieces of decode.c: the input that all routes share, and each route's own
 * part.
 *
 * All take the body as a JSON object whose fields are known ones, and fill the job. */
#ifndef HTTP_DECODE_PARTS_H
#define HTTP_DECODE_PARTS_H

#include <jansson.h>

#include "decode.h"

/* The rows of `input_ids` or `inputs`: makes job->request and fills tokens, places and counts. */
int decode_rows(struct job *job, enum request_kind kind, const json_t *body,
                const struct limits *limits, struct error *err);

int decode_encode(struct job *job, const json_t *body, const struct limits *limits,
                  struct error *err);
int decode_generate(struct job *job, const json_t *body, const struct limits *limits,
                    struct error *err);
int decode_score(struct job *job, const json_t *body, const struct limits *limits,
                 struct error *err);

/* The fields each route takes besides the common ones; NULL-terminated. */
extern const char *const decode_encode_fields[];
extern const char *const decode_generate_fields[];
extern const char *const decode_score_fields[];

/* The token ids of a text of field `field`: those of a source, with *trailing as in tokenizer.h,
 * or, with `trailing` NULL, those of a target. */
struct row_field;
int decode_text(const struct served_model *served, const struct row_field *field, size_t index,
                int32_t **ids, size_t *count, size_t *trailing, struct error *err);

/* About how long these are in an answer: a number, and {"id": 58100, "logprob": -12.345678}. */
enum { DECODE_FLOAT_BYTES = 12, DECODE_CANDIDATE_BYTES = 36, DECODE_ID_BYTES = 8 };

/* Sets job->answer_bytes, or refuses an answer of about `bytes`, estimated before queueing.
 * Errors: ERR_OVER_LIMIT. */
int decode_check_size(struct job *job, double bytes, const struct limits *limits,
                      struct error *err);

#endif
