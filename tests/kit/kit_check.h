/* kit_check.h — a question to the daemon and how its answer is judged.
 *
 * Questions are made once, by main; then they are const and every client asks all of them. */
#ifndef KIT_CHECK_H
#define KIT_CHECK_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#define KIT_HIDDEN_TOLERANCE 1e-5 /* states, pooled vectors, attention weights */
#define KIT_SCORE_TOLERANCE  1e-4 /* log-probabilities and beam scores */
#define KIT_DRAWS            100  /* of one request */
#define KIT_DRAW_REQUESTS    6    /* of one distribution */
#define KIT_OPTIONS_MAX      64

struct kit_check;

/* Whether the answers, one to each body, are right; else false and the reason in `why`. */
typedef bool kit_judge(const struct kit_check *check, json_t *const *answers, char *why,
                       size_t why_bytes);

struct kit_check {
    char name[96];
    const char *path;
    char *bodies[KIT_DRAW_REQUESTS]; /* owned */
    size_t body_count;
    kit_judge *judge;
    const json_t *item; /* of expected.json, for the judge; borrowed */
    const char *pooling;
    bool normalize;
    const char *unsupported; /* the option that must be refused, else NULL; borrowed */
};

/* Names of generation options. */
struct kit_options {
    char names[KIT_OPTIONS_MAX][48];
    size_t count;
};

struct kit_case {
    json_t *expected; /* owned */
    struct kit_check *checks;
    size_t count;
};

/* Reads names, one a line; lines that begin with # are left out.  −1 and a line on stderr when the
 * file cannot be read. */
int kit_options_read(struct kit_options *options, const char *path);

/* Reads a case folder and makes its checks; a request that needs one of the `unsupported` options,
 * which outlive the case, must be refused.  −1 and a line on stderr when the folder is not whole.
 */
int kit_case_open(struct kit_case *kit_case, const char *folder,
                  const struct kit_options *unsupported);
void kit_case_close(struct kit_case *kit_case);

kit_judge kit_judge_hidden;
kit_judge kit_judge_pooled;
kit_judge kit_judge_encoder_attentions;
kit_judge kit_judge_score;
kit_judge kit_judge_decoder_attentions;
kit_judge kit_judge_generate;
kit_judge kit_judge_distribution;

#endif
