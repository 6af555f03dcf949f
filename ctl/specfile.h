/* SPDX-License-Identifier: Apache-2.0 */
/*
 * specfile: a spec from the user's file to the text that is sent.
 *
 * Reads the file with the user's rights, applies --set, parses, makes paths
 * absolute against the working directory and looks whether the files named
 * can be read. All faults are printed, compiler style, before it gives up.
 * The daemon only ever sees the printed text of the checked spec.
 */
#ifndef CTL_SPECFILE_H
#define CTL_SPECFILE_H

#include "ctl/session.h"
#include "proto/spec.h"

struct specfile {
    const char *name;  /* borrowed: as messages call it */
    char *text;        /* owned: the file, with --set applied */
    struct spec *spec; /* owned */
    char *full;        /* owned: printed, with paths as they were given */
    char *wire;        /* owned: what is sent */
};

/* One fault to a person or to the output: line 0 = no place. */
typedef void specfile_fault_fn(struct session *s, const struct specfile *file,
                               const struct view_fault *fault, void *ctx);

/* Reads path ("-" is standard input) and applies `set`, a list of n_set
 * assignments. ERR_IO, ERR_SPEC, ERR_USAGE with a sentence. */
int specfile_read(struct specfile *file, const char *path,
                  const char *const *set, int n_set, struct err *err);
/* Parses and checks. The number of faults handed to fn, or negative. `full` is
 * there when the text had none, `wire` when the files had none either. */
int specfile_check(struct session *s, struct specfile *file,
                   specfile_fault_fn *fn, void *ctx, struct err *err);
/* Asks the daemon too; the link is open. Returns as specfile_check(). */
int specfile_ask(struct session *s, const struct specfile *file,
                 specfile_fault_fn *fn, void *ctx, struct err *err);
/* Faults that came with a refusal of the last call. */
int specfile_refused(struct session *s, const struct specfile *file,
                     specfile_fault_fn *fn, void *ctx);
void specfile_fini(struct specfile *file);

/* A fault_fn: "file:line:col: error: path: message" on standard error. ctx is
 * NULL or a struct specfile_sets. A fault under a path that --set gave is laid
 * to that --set. */
struct specfile_sets {
    const char *const *set; /* borrowed */
    int n;
};
void specfile_print_fault(struct session *s, const struct specfile *file,
                          const struct view_fault *fault, void *ctx);

#endif
