#include "base/background.h"

#include <string.h>

static void *run(void *context)
{
    struct background *b = context;
    b->work(b->context);
    b->done = true;
    return NULL;
}

int background_start(struct background *b, void (*work)(void *context), void *context,
                     struct error *err)
{
    b->work = work;
    b->context = context;
    b->done = false;
    const int code = pthread_create(&b->thread, NULL, run, b);
    return code == 0 ? 0 : error_set(err, ERR_NO_MEMORY, "no thread: %s", strerror(code));
}

bool background_is_done(const struct background *b)
{
    return b->done;
}

void background_join(struct background *b)
{
    pthread_join(b->thread, NULL);
}
