/* SPDX-License-Identifier: Apache-2.0 */
/*
 * logcap: keeps a worker's output files bounded.
 *
 * A worker writes straight to its files (nobody need drain a pipe), always
 * appending. When a file is larger than one piece, its end is copied to
 * FILE.1 (older pieces move up to FILE.N, the oldest goes) and the file is cut
 * to nothing; what is written between the copy and the cut is lost. So a
 * stream takes at most (pieces + 1) pieces, plus what comes within the second
 * between two looks. Files that belong to the submitter are touched through
 * the directory's descriptor only, never through a link.
 */
#ifndef DAEMON_LOGCAP_H
#define DAEMON_LOGCAP_H

#include "proto/err.h"

#include <stdint.h>

/* piece_bytes: size of one piece; pieces: how many older ones are kept. */
int logcap_check(const char *attempt_dir, const char *file, int64_t piece_bytes,
                 int pieces, struct err *err);

#endif
