#include "app/process_metrics.h"

#include <dirent.h>
#include <math.h>
#include <stdio.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/cpu.h"
#include "base/log.h"

static double cpu_seconds(void *context)
{
    (void)context;
    struct timespec t = { 0 };
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* Field `index` (0 all, 1 resident) of /proc/self/statm, in bytes. */
static double memory_bytes(int index)
{
    unsigned long long pages[2] = { 0 };
    FILE *file = fopen("/proc/self/statm", "re");
    if (!file)
        return NAN;
    const int fields = fscanf(file, "%llu %llu", &pages[0], &pages[1]);
    fclose(file);
    return fields == 2 ? (double)pages[index] * (double)sysconf(_SC_PAGESIZE) : NAN;
}

static double virtual_bytes(void *context)
{
    (void)context;
    return memory_bytes(0);
}

static double resident_bytes(void *context)
{
    (void)context;
    return memory_bytes(1);
}

static double open_fds(void *context)
{
    (void)context;
    DIR *folder = opendir("/proc/self/fd");
    if (!folder)
        return NAN;
    double count = -1; /* the folder's own */
    for (const struct dirent *entry; (entry = readdir(folder));)
        count += entry->d_name[0] != '.';
    closedir(folder);
    return count;
}

static double max_fds(void *context)
{
    (void)context;
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0)
        return NAN;
    return limit.rlim_cur == RLIM_INFINITY ? INFINITY : (double)limit.rlim_cur;
}

static double throttled_seconds(void *context)
{
    (void)context;
    return cpu_throttled_seconds();
}

static double lines_dropped(void *context)
{
    (void)context;
    return (double)log_lines_dropped();
}

void process_metrics_register(struct metrics *metrics, double budget_cores)
{
    static const struct {
        const char *name, *help;
        double (*read)(void *context);
    } series[] = {
        { "process_cpu_seconds_total", "CPU time of the process, user and system.", cpu_seconds },
        { "process_resident_memory_bytes", "Resident memory, mapped weights included.",
          resident_bytes },
        { "process_virtual_memory_bytes", "Address space.", virtual_bytes },
        { "process_open_fds", "Open file descriptors.", open_fds },
        { "process_max_fds", "How many may be open.", max_fds },
        { "seqd_log_lines_dropped_total", "Lines that stderr did not take.", lines_dropped },
    };
    gauge_set(metrics_gauge(metrics, "seqd_cpu_budget_cores",
                            "CPU that affinity and cgroup quota allowed at start.", ""),
              budget_cores);
    if (cpu_throttled_seconds() >= 0)
        metrics_read(metrics, "seqd_cpu_throttled_seconds_total",
                     "Time that the cgroup has kept the process from running.", "",
                     throttled_seconds, NULL);
    for (size_t i = 0; i < sizeof series / sizeof *series; i++)
        metrics_read(metrics, series[i].name, series[i].help, "", series[i].read, NULL);
    gauge_set(metrics_gauge(metrics, "process_start_time_seconds",
                            "When the process started, in seconds since 1970.", ""),
              clock_unix_seconds());
}
