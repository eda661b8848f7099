#include "base/cpu.h"

#include <math.h>
#include <sched.h>
#include <unistd.h>

#include "cgroup.h"
#include "slurp.h"

static const char mount[] = "/sys/fs/cgroup";

static double affinity_cores(void)
{
    cpu_set_t sets[8]; /* 8192 CPUs; the kernel refuses a set smaller than its own */
    if (sched_getaffinity(0, sizeof sets, sets) == 0)
        return CPU_COUNT_S(sizeof sets, sets);
    return (double)sysconf(_SC_NPROCESSORS_ONLN);
}

double cpu_budget_cores(void)
{
    double cores = affinity_cores();
    char self[8192];
    if (slurp("/proc/self/cgroup", self, sizeof self))
        cores = fmin(cores, cgroup_cores(mount, self));
    return fmax(cores, 0.1);
}

double cpu_throttled_seconds(void)
{
    char self[8192];
    return slurp("/proc/self/cgroup", self, sizeof self) ? cgroup_throttled(mount, self) : -1;
}
