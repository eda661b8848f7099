/* team.h — threads that share short pieces of work, many thousand times a second.
 *
 * A team of T members is its caller, member 0, and T - 1 helper threads.  Between two pieces a
 * helper spins for about 100 µs, lets others have its core meanwhile, and then sleeps: a team
 * without work uses no CPU.  To wake a helper costs the caller 10 to 40 µs in a virtual machine:
 * work that is not worth that and comes alone is better done without the team.
 *
 * The caller waits for no helper that has not begun: it does that member's part itself.  So a
 * helper that still wakes up, or whose core another program has, costs its help and not a delay.
 * Which thread does a member's part is therefore open; the parts, and so the results, are the same.
 *
 * Floating point: nobody changes the mode.  A helper has the mode of the thread that created the
 * team, which must be that of the thread that runs it: the default, which keeps subnormals.
 *
 * One thread at a time runs a team.  It may be another each time, and helpers that slept may use
 * the cores that it may use. */
#ifndef BASE_TEAM_H
#define BASE_TEAM_H

#include <assert.h>
#include <stddef.h>

#include "base/error.h"

struct team;

/* A team of `members` (>= 1), which starts members - 1 threads that block every signal.  The
 * caller's from here on.  Errors: ERR_NO_MEMORY. */
int team_create(struct team **out, size_t members, struct error *err);

/* Not while it runs.  Ends the threads; NULL is allowed. */
void team_destroy(struct team **team);

/* 1 for NULL. */
size_t team_size(const struct team *team);

/* Calls work(context, member, members) once for every member, in several threads, and returns when
 * all calls have ended.  What the caller wrote before is seen by all of them, and what they wrote
 * by the caller after.  With team NULL: work(context, 0, 1).  `work` must not run the team. */
void team_run(struct team *team, void (*work)(void *context, size_t member, size_t members),
              void *context);

/* The member's part [*first, *end) of 0..count: a multiple of `step` (>= 1) but for the last part,
 * which takes the rest too.  Parts differ by at most one step and may be empty, the last ones
 * first. */
static inline void team_share(size_t count, size_t step, size_t member, size_t members,
                              size_t *first, size_t *end)
{
    assert(step > 0 && member < members);
    const size_t steps = count / step + (count % step > 0);
    const size_t each = steps / members, more = steps % members;
    const size_t before = member * each + (member < more ? member : more);
    const size_t after = before + each + (member < more);
    *first = before * step;
    *end = after == steps ? count : after * step;
    if (*first > *end)
        *first = *end;
}

#endif
