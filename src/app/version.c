#include "app/version.h"

const char *version_number(void)
{
    return SEQD_VERSION;
}

const char *version_commit(void)
{
    return SEQD_COMMIT;
}
