/* describe.h — what GET /v1/models says of a model, for others that say it too.  Each but the
 * first writes a key with its value. */
#ifndef HTTP_DESCRIBE_H
#define HTTP_DESCRIBE_H

#include "http/writer.h"
#include "model/model.h"
#include "search/options.h"

/* A value alone, as JSON. */
void describe_value(struct writer *writer, const struct value *value);

void describe_sizes(struct writer *writer, const struct model *model);
/* What /v1/encode does unless a request says otherwise. */
void describe_encode(struct writer *writer, const struct model *model);
/* Those that differ from the table's; null if the model only encodes. */
void describe_options(struct writer *writer, const struct model *model,
                      const struct options *options);

#endif
