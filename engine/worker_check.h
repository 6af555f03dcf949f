/* SPDX-License-Identifier: Apache-2.0 */
/*
 * worker_check: traind-worker --check SPEC, for a person, and --check-data, for
 * trainctl.
 *
 * Prints every fault of a spec with file, line and column, or what would be
 * run: graph, cast plan, program, memory map, guards and totals. Opens the data, runs
 * nothing, writes nothing but its output. SPEC may be - for standard input.
 */
#ifndef ENGINE_WORKER_CHECK_H
#define ENGINE_WORKER_CHECK_H

/* The exit status. */
int worker_check(const char *path);
/* Data, model and initial weights only: silent, or one sentence on standard output. */
int worker_check_data(const char *path);

/* A spec from a file, paths made absolute; faults go to standard error. */
struct err;
struct spec;
int worker_check_load(const char *path, struct spec **spec, struct err *err);

/* spec.threads, or the processors this process may use. */
int worker_check_threads(const struct spec *spec);

#endif
