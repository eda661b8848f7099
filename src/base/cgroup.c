#include "cgroup.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "slurp.h"

/* True when `controller` is one of the comma-separated names of length `length`. */
static bool names_controller(const char *names, size_t length, const char *controller)
{
    const size_t wanted = strlen(controller);
    for (const char *end = names + length; names < end;) {
        const char *comma = memchr(names, ',', (size_t)(end - names));
        const size_t name = (size_t)((comma ? comma : end) - names);
        if (name == wanted && memcmp(names, controller, wanted) == 0)
            return true;
        names += name + 1;
    }
    return false;
}

bool cgroup_path(const char *text, const char *controller, char *path, size_t room)
{
    for (const char *line = text; *line;) {
        const size_t length = strcspn(line, "\n");
        const char *names = memchr(line, ':', length);
        const char *colon =
            names ? memchr(names + 1, ':', length - (size_t)(names + 1 - line)) : NULL;
        if (colon) {
            const size_t names_length = (size_t)(colon - names - 1);
            const size_t path_length = length - (size_t)(colon + 1 - line);
            const bool found = controller ? names_controller(names + 1, names_length, controller)
                                          : names_length == 0;
            if (found && path_length < room) {
                memcpy(path, colon + 1, path_length);
                path[path_length] = '\0';
                return true;
            }
        }
        line += length + (line[length] == '\n');
    }
    return false;
}

static double cores(double quota_us, double period_us)
{
    return quota_us > 0 && period_us > 0 ? quota_us / period_us : INFINITY;
}

double cgroup_cores_v2(const char *cpu_max)
{
    long long quota, period;
    return sscanf(cpu_max, "%lld %lld", &quota, &period) == 2 ? cores((double)quota, (double)period)
                                                              : INFINITY;
}

double cgroup_cores_v1(const char *quota_us, const char *period_us)
{
    return cores((double)strtoll(quota_us, NULL, 10), (double)strtoll(period_us, NULL, 10));
}

double cgroup_stat_throttled(const char *cpu_stat)
{
    static const struct {
        const char *name;
        double unit;
    } fields[] = { { "throttled_usec ", 1e-6 }, { "throttled_time ", 1e-9 } };
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++) {
        const char *field = strstr(cpu_stat, fields[i].name);
        if (field)
            return (double)strtoll(field + strlen(fields[i].name), NULL, 10) * fields[i].unit;
    }
    return -1;
}

enum { PATH_ROOM = 4096, TEXT_ROOM = 2048 };

/* Reads MOUNT/HIERARCHY/GROUP/NAME. */
static bool read_file(const char *folder, const char *name, char text[static TEXT_ROOM])
{
    char path[PATH_ROOM + 32];
    const int length = snprintf(path, sizeof path, "%s/%s", folder, name);
    return length > 0 && (size_t)length < sizeof path && slurp(path, text, TEXT_ROOM);
}

static void least_quota(const char *folder, double *result)
{
    char text[TEXT_ROOM], period[TEXT_ROOM];
    if (read_file(folder, "cpu.max", text))
        *result = fmin(*result, cgroup_cores_v2(text));
    if (read_file(folder, "cpu.cfs_quota_us", text) &&
        read_file(folder, "cpu.cfs_period_us", period))
        *result = fmin(*result, cgroup_cores_v1(text, period));
}

static void nearest_throttled(const char *folder, double *result)
{
    char text[TEXT_ROOM];
    if (*result < 0 && read_file(folder, "cpu.stat", text))
        *result = cgroup_stat_throttled(text);
}

/* Calls `visit` for the group of the process and all its parents, in each hierarchy that may hold
 * the cpu controller.  In a container the path may be the host's and not exist below the mount; its
 * root is the container's own group then, and is always visited. */
static void walk(const char *mount, const char *self,
                 void (*visit)(const char *folder, double *result), double *result)
{
    static const struct {
        const char *folder, *controller;
    } hierarchies[] = {
        { "", NULL }, { "/unified", NULL }, { "/cpu", "cpu" }, { "/cpu,cpuacct", "cpu" }
    };
    for (size_t i = 0; i < sizeof hierarchies / sizeof *hierarchies; i++) {
        char group[PATH_ROOM / 2], folder[PATH_ROOM];
        if (!cgroup_path(self, hierarchies[i].controller, group, sizeof group))
            continue;
        const int root = snprintf(folder, sizeof folder, "%s%s", mount, hierarchies[i].folder);
        const int length = snprintf(folder, sizeof folder, "%s%s%s", mount, hierarchies[i].folder,
                                    strcmp(group, "/") == 0 ? "" : group);
        if (length < root || (size_t)length >= sizeof folder)
            continue;
        for (char *end = folder + length; end; end = strrchr(folder + root, '/')) {
            *end = '\0';
            visit(folder, result);
        }
    }
}

double cgroup_cores(const char *mount, const char *self)
{
    double result = INFINITY;
    walk(mount, self, least_quota, &result);
    return result;
}

double cgroup_throttled(const char *mount, const char *self)
{
    double result = -1;
    walk(mount, self, nearest_throttled, &result);
    return result;
}
