/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fake_daemon: a scripted daemon on a real socket, and trainctl run against it.
 *
 * A script is a list of steps; FAKE_ACCEPT begins the next connection. What is
 * said is the JSON of one frame, spelled out, so that the tests hold the
 * client to the wire and not to our own codec. The fake runs as a child and
 * fails the test when it heard something else than the script says.
 */
#ifndef TESTS_SUPPORT_FAKE_DAEMON_H
#define TESTS_SUPPORT_FAKE_DAEMON_H

#include <stddef.h>

enum fake_kind {
    FAKE_END, /* of the script: close everything */
    FAKE_ACCEPT,
    FAKE_SAY,        /* a frame */
    FAKE_SAY_PART,   /* the header of text, and half of it */
    FAKE_SAY_RAW,    /* bytes without a header */
    FAKE_HEAR,       /* a frame that holds text */
    FAKE_HEAR_AGAIN, /* a frame like the one heard last */
    FAKE_SIGNAL,     /* SIGINT to the client */
    FAKE_CLOSE,      /* this connection; the next step accepts another */
    FAKE_HANG        /* until the client leaves */
};

struct fake_step {
    enum fake_kind kind;
    const char *text;
};

#define FAKE_HELLO                                                             \
    "{\"hello\":\"traind\",\"proto_min\":1,\"proto_max\":1,"                   \
    "\"version\":\"9.9\",\"uid\":0,\"state_dir\":\"/s\","                      \
    "\"database\":\"/s/traind.db\"}"

/* Every script begins so. */
#define FAKE_GREET                                                             \
    {FAKE_ACCEPT, NULL},                                                       \
    {                                                                          \
        FAKE_SAY, FAKE_HELLO                                                   \
    }

#define FAKE_OUT_MAX (256 * 1024)

struct fake_run {
    int exit_code; /* 128 + the signal that killed it */
    char out[FAKE_OUT_MAX], err[FAKE_OUT_MAX];
    long ms; /* how long it took */
};

/* How trainctl's standard output is. */
enum fake_stdout { FAKE_PIPE, FAKE_FULL, FAKE_BROKEN };

struct fake_setup {
    const struct fake_step *script; /* NULL: no daemon at all */
    const char *locale;             /* LC_ALL; NULL: C */
    const char *directory;          /* to run in; NULL: a new one */
    enum fake_stdout out;
    const char *in; /* standard input's text, or NULL */
};

/* Runs "trainctl --socket PATH ARGS..." (args end with NULL). Returns it; the
 * result is good until the next call. Fails the test when the script was not
 * followed. */
const struct fake_run *fake_daemon_run(const struct fake_setup *setup,
                                       const char *const *args);

/* A directory for the test, removed by fake_daemon_fini(). */
const char *fake_daemon_directory(void);
void fake_daemon_fini(void);

#endif
