/* process_metrics.h — the standard process_* series and those of the CPU budget. */
#ifndef APP_PROCESS_METRICS_H
#define APP_PROCESS_METRICS_H

#include "base/metrics.h"

/* Once, at start.  `budget_cores` from cpu_budget_cores(). */
void process_metrics_register(struct metrics *metrics, double budget_cores);

#endif
