/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ckpt_dir: names, directories and durable files of checkpoints.
 *
 * Private to ckpt. Knows what must reach the disk before what, and nothing of
 * what the files hold. Everything goes through descriptors of directories and
 * never follows a symbolic link inside them. Sentences start with the file.
 */
#ifndef ENGINE_RUN_CKPT_DIR_H
#define ENGINE_RUN_CKPT_DIR_H

#include "proto/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define CKPT_DIR_NAME_MAX 64
#define CKPT_DIR_TMP      ".tmp-"

/* "it000000500-a1". */
void ckpt_dir_format_name(char name[CKPT_DIR_NAME_MAX], int64_t iteration,
                          int64_t attempt);
/* Exactly such a name, and nothing else. */
bool ckpt_dir_parse_name(const char *name, int64_t *iteration,
                         int64_t *attempt);

/* A directory of checkpoints; make: when it is missing. A descriptor or an
 * error. */
int ckpt_dir_open(const char *directory, bool make, struct err *err);
/* Room for n_bytes more? ERR_NOSPACE when surely not. */
int ckpt_dir_check_space(int parent, int64_t n_bytes, struct err *err);

/* An empty ".tmp-NAME"; ERR_EXISTS when NAME is there already. A descriptor. */
int ckpt_dir_begin(int parent, const char *name, struct err *err);
/* Syncs the directory, renames it to NAME, syncs the parent. */
int ckpt_dir_commit(int parent, int dir, const char *name, struct err *err);
/* Removes ".tmp-NAME" with what is in it, if it is there. */
void ckpt_dir_abandon(int parent, const char *name);

/* A new file in dir; n_bytes of space are asked for beforehand where the file
 * system can. A descriptor. */
int ckpt_dir_create_file(int dir, const char *file, int64_t n_bytes,
                         struct err *err);
/* Syncs and closes; closes in any case. */
int ckpt_dir_finish_file(int fd, const char *file, struct err *err);
/* A small file, whole. */
int ckpt_dir_write_file(int dir, const char *file, const char *text,
                        struct err *err);

/* A committed checkpoint, for reading. A descriptor, ERR_CKPT or ERR_IO. */
int ckpt_dir_open_one(int parent, const char *name, struct err *err);
/* A whole file of it, malloc'd and NUL-terminated behind *len bytes. */
int ckpt_dir_read_file(int dir, const char *file, char **bytes, size_t *len,
                       struct err *err);

/* NAME becomes ".tmp-NAME" and goes. */
int ckpt_dir_remove(int parent, const char *name, struct err *err);
/* Removes every ".tmp-*". */
void ckpt_dir_sweep(int parent);

#endif
