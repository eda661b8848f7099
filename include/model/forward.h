/* forward.h — the one forward pass of all families, over packed rows.
 *
 * Packed: the real tokens of many rows lie one after another, (M, D), M = the sum of the rows'
 * lengths; there is no padding.  Attention runs row by row, every other product once over all M
 * tokens.
 *
 * Every function is bounded, allocates nothing (scratch comes from the caller's arena and is given
 * back) and may run in many threads at once on arenas and caches of their own.
 *
 * What a row gets depends on the row alone, to the bit: products over the batch have an order of
 * summation that ignores the batch (kernels.h), and attention sees one row. */
#ifndef MODEL_FORWARD_H
#define MODEL_FORWARD_H

#include "base/arena.h"
#include "base/team.h"
#include "model/model.h"

struct pass {
    const struct model *model;
    const struct kernels *kernels;
    struct arena *arena; /* scratch; needs pass_scratch_bytes() */
    struct team *team;   /* shares the work; NULL: nobody does */
    bool screening;      /* use the model's screen, if it has one */
};

/* One row of an encoder pass. */
struct source_row {
    const int32_t *tokens;    /* (count), real ones */
    const int32_t *places;    /* (count), of each in the row as sent */
    const int32_t *positions; /* (count), as config_positions() says */
    size_t count;
    size_t sent_count;
    float *attentions; /* (L, H, sent_count, sent_count), zeroed, or NULL */
};

/* An encoder pass over packed rows, of M tokens in all.  A layer has two phases: first every
 * token's query, key and value, then all the rest.  In each the tokens may be run in pieces, in
 * order. */
struct encoding {
    const struct source_row *rows;
    size_t row_count, M;
    float *x;         /* (M, D): the states, in place */
    float *q, *k, *v; /* (M, H·K), (M, H·K), (M, H·value width) of the layer under way */
};
enum encoder_phase { ENCODER_PROJECT, ENCODER_TRANSFORM };

/* What q, k and v need together, and their places in it. */
size_t encoding_floats(const struct model_config *config, size_t M);
void encoding_place(struct encoding *encoding, const struct model_config *config, float *floats);

/* x = token + position embeddings of the rows, norm included. */
void encoder_embed(const struct pass *pass, const struct encoding *encoding);

/* Tokens first … end−1 go through a phase of layer `index`; the team shares them by tokens. */
void encoder_run(const struct pass *pass, size_t index, enum encoder_phase phase,
                 const struct encoding *encoding, size_t first, size_t end);

/* The end of the piece that begins with token `first` and has about so many multiplications. */
size_t encoder_chunk(const struct model_config *config, const struct encoding *encoding,
                     enum encoder_phase phase, size_t first, size_t products);

/* A whole layer. */
void encoder_layer(const struct pass *pass, size_t index, const struct encoding *encoding);

/* The last norm, if the model has one. */
void encoder_finish(const struct pass *pass, float *x, size_t M);

/* The keys and values of one row, in memory of the caller: cross ones once, self ones by slot. */
struct key_values {
    float *base;
    size_t source_count; /* S */
    size_t slot_count;
};

/* Floats that `base` needs; SIZE_MAX: more than can be counted. */
size_t key_values_floats(const struct model_config *config, size_t source_count, size_t slot_count);

/* Cross keys and values of decoder layer `index` for tokens first … end−1 of the packed rows: x is
 * the encoder's output for all of them. */
void decoder_cross(const struct pass *pass, size_t index, const float *x,
                   const struct key_values *const *rows, size_t first, size_t end);

/* Some new tokens of one hypothesis in a decoder pass. */
struct segment {
    const struct key_values *key_values;
    const int32_t *tokens; /* (start + count), the whole hypothesis; new are the last `count` */
    size_t start, count;
    size_t prefix_count; /* tokens that were not generated */
    const int32_t *path; /* (start + count): the slot of every position so far */

    /* Attention weights, written where they are wanted: of the token at position p, row p of
     * self_weights (L, H, places, places) and cross_weights (L, H, places, sent_count). */
    float *self_weights, *cross_weights; /* zeroed, or NULL */
    size_t places;
    const int32_t *source_places; /* (S), with cross_weights */
    size_t sent_count;
};

/* x (M, D) = the decoder's output for the segments' new tokens, last norm included; their keys and
 * values are added to the caches. */
void decoder_forward(const struct pass *pass, const struct segment *segments, size_t segment_count,
                     float *x);

/* logits (M, V) of decoder outputs x (M, D), raw.  Of row m at least the needed[m] best are right,
 * and what equals the last of them; others may be −Inf.  needed[m] 0, or `needed` NULL: all. */
void decoder_logits(const struct pass *pass, const float *x, size_t M, const size_t *needed,
                    float *logits);

/* Multiplications of a token in decoder_forward() and decoder_logits() that attends to `keys`. */
size_t decoder_token_products(const struct model_config *config, size_t keys);

/* Scratch of any call above for a decoder pass of at most M tokens, rows of at most `source_max`
 * source tokens, hypotheses of at most `target_max` positions and a team of `members`. */
size_t pass_scratch_bytes(const struct model_config *config, size_t M, size_t source_max,
                          size_t target_max, size_t members);

#endif
