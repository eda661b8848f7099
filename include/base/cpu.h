/* cpu.h — how much CPU this process may use. */
#ifndef BASE_CPU_H
#define BASE_CPU_H

/* What affinity (cpuset included) and the cgroup quota (v1 or v2) allow, in cores; at least 0.1.
 * 1.5 means one and a half. */
double cpu_budget_cores(void);

/* Seconds the cgroup has throttled this process; negative when that is not known. */
double cpu_throttled_seconds(void);

#endif
