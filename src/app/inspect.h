/* inspect.h — what `seqd inspect` finds out about a folder, and the two forms it is printed in.
 * Private to src/app.  Main's thread. */
#ifndef APP_INSPECT_H
#define APP_INSPECT_H

#include "app/configuration.h"
#include "base/buffer.h"
#include "model/findings.h"
#include "serve/lane_memory.h"
#include "serve/registry.h"
#include "serve/workers.h"

struct inspection {
    const char *folder;
    const struct configuration *config;
    struct crew crew;

    struct findings findings;
    struct model *model; /* owned; NULL: config.json could not be read, and all below is empty */
    struct tokenizer *tokenizer; /* owned; NULL: the folder has none */
    struct options defaults;
    bool defaults_known; /* no problem with them was found */
    struct lane_memory memory;
};

/* One step of the walk from token ids to logits. */
enum walk_part { WALK_ENCODER, WALK_DECODER, WALK_MODULES };
enum { WALK_RANK_MAX = 4, WALK_NOTE_BYTES = 120 };
struct walk_step {
    enum walk_part part;
    bool in_layer; /* once in each layer of its part */
    const char *name;
    size_t rank;
    struct walk_side {
        char letter; /* 'B' rows, 'S' source and 'T' target tokens; 0: the size */
        size_t size;
    } shape[WALK_RANK_MAX];
    char note[WALK_NOTE_BYTES];
};
/* Calls `each` for every step, in order. */
void inspect_walk(const struct model *model,
                  void (*each)(void *context, const struct walk_step *step), void *context);

/* In words; cut to `size`. */
void inspect_norms(const struct model_config *config, char *out, size_t size);
void inspect_positions(const struct model_config *config, char *out, size_t size);
/* softmax(…) of the scores of a stack. */
void inspect_scores(const struct model_config *config, const struct stack_shape *shape,
                    bool relative, char *out, size_t size);
void inspect_feed_forward(const struct model_config *config, char *out, size_t size);

/* The tensor at `data` without the ".weight" that all tables end in; "" if there is none. */
struct inspect_name {
    char text[80];
};
struct inspect_name inspect_table_name(const struct model *model, const void *data);

/* Bytes of keys and values of a row. */
size_t inspect_row_bytes(const struct inspection *in, size_t source_tokens, size_t target_tokens);
/* Source tokens of the longest row. */
size_t inspect_source_max(const struct inspection *in);
/* All memory, of all workers. */
size_t inspect_memory_bytes(const struct inspection *in);

void inspect_print_page(const struct inspection *in, struct buffer *out);
void inspect_print_findings(const struct inspection *in, enum finding_kind kind,
                            struct buffer *out);
void inspect_print_json(const struct inspection *in, struct buffer *out);

#endif
