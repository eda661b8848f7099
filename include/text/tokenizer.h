/* tokenizer.h — text to token ids and back, as the model's folder says.
 *
 * Const after tokenizer_open(); safe from any thread. */
#ifndef TEXT_TOKENIZER_H
#define TEXT_TOKENIZER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "model/config.h"

struct tokenizer;

/* The tokenizer of the folder `dir`; *out is NULL and the result 0 when the folder has none that is
 * known.  Owned by the caller until tokenizer_close().
 * Errors: ERR_IO, ERR_BAD_MODEL (names file and field), ERR_NO_MEMORY. */
int tokenizer_open(struct tokenizer **out, const char *dir, const struct model_config *config,
                   struct error *err);
void tokenizer_close(struct tokenizer **tokenizer);

/* Text (UTF-8, `bytes` long) to ids of the source vocabulary, with what goes around a source (begin
 * and end tokens).  *ids is the caller's to mem_free().  *trailing is how many ids at the end
 * truncation must keep.  Errors: ERR_OUT_OF_RANGE (not UTF-8, or a pattern gave up), ERR_NO_MEMORY.
 */
int tokenizer_encode(const struct tokenizer *tokenizer, const char *text, size_t bytes,
                     int32_t **ids, size_t *count, size_t *trailing, struct error *err);

/* The same for a text of the target vocabulary, without begin or end tokens (targets of /v1/score
 * get the end token from the caller).  Tokens are separated as `join` separates them. */
int tokenizer_encode_target(const struct tokenizer *tokenizer, const char *text, size_t bytes,
                            int32_t **ids, size_t *count, struct error *err);

/* Target ids to text, the caller's to mem_free(); special tokens (pad, begin, end) are left out
 * when `skip_special`.  An id outside the vocabulary is left out.  NULL: no memory. */
char *tokenizer_decode(const struct tokenizer *tokenizer, const int32_t *ids, size_t count,
                       bool skip_special);

#endif
