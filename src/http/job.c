#include "job.h"

void job_clear(struct job *job)
{
    request_destroy(&job->request);
}
