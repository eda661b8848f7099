#include "job.h"

#include "base/mem.h"

void job_clear(struct job *job)
{
    if (job->sent)
        for (size_t i = 0; i < job->request->row_count; i++)
            mem_free(job->sent[i].ids);
    mem_free(job->sent);
    job->sent = NULL;
    request_destroy(&job->request);
}
