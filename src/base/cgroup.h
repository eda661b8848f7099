/* cgroup.h — the CPU a control group allows, from the texts of its files.  Private to base.
 *
 * Plain functions over texts and over a folder, so that a test can bring its own.  Any thread. */
#ifndef BASE_CGROUP_H
#define BASE_CGROUP_H

#include <stdbool.h>
#include <stddef.h>

/* The path of the process in the text of /proc/self/cgroup: of the unified hierarchy when
 * `controller` is NULL, else of the v1 hierarchy of that controller.  False: no such line, or no
 * room. */
bool cgroup_path(const char *text, const char *controller, char *path, size_t room);

/* Cores: "150000 100000" is 1.5.  Infinite for "max", for −1 and for what cannot be read. */
double cgroup_cores_v2(const char *cpu_max);
double cgroup_cores_v1(const char *quota_us, const char *period_us);

/* Seconds from the text of cpu.stat: throttled_usec of v2, throttled_time (ns) of v1; negative when
 * it has neither. */
double cgroup_stat_throttled(const char *cpu_stat);

/* The smallest quota on the way from the process's own groups to the roots of the hierarchies that
 * are mounted in `mount` (/sys/fs/cgroup); infinite when nothing limits.  `self` as in
 * cgroup_path(). */
double cgroup_cores(const char *mount, const char *self);

/* Throttled seconds of the nearest group that counts them; negative when none does. */
double cgroup_throttled(const char *mount, const char *self);

#endif
