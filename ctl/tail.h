/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tail: one growing file, copied to a stream as it grows.
 *
 * Opens with the caller's own rights; never reads a file whole. A file that
 * is not there yet is empty. The file belongs to a worker; it is only ever
 * appended to.
 */
#ifndef CTL_TAIL_H
#define CTL_TAIL_H

#include "proto/err.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

struct tail {
    int fd; /* -1: not there (yet) */
};

/* lines: begin so many lines before the end; negative: at the start. ERR_IO,
 * ERR_DENIED; 0 with fd -1 when there is no such file. */
int tail_open(struct tail *tail, const char *path, int64_t lines,
              struct err *err);
/* Copies what has come since. */
int tail_copy(struct tail *tail, FILE *to, struct err *err);
void tail_close(struct tail *tail);

#endif
