/* SPDX-License-Identifier: Apache-2.0 */
/*
 * auth: who is at the other end of a connection, and what that one may do.
 *
 * Identity comes from the kernel (SO_PEERCRED, SO_PEERGROUPS) and never from
 * a field of a message. The right that a message needs is in messages.def; the
 * answer is a pure function of right, role and visibility, so that the whole
 * matrix can be tested. Holds no state.
 */
#ifndef DAEMON_AUTH_H
#define DAEMON_AUTH_H

#include "daemon/conf.h"
#include "proto/message.h"

#include <sys/types.h>

struct auth_peer {
    uid_t uid;
    gid_t gid;
    pid_t pid; /* for the record: it may be another one by now */
    bool admin;
    unsigned scopes; /* enum auth_scope: of its token; all without one */
    int64_t token;   /* it came with; 0: the kernel knows who it is */
};

/* What a token is good for, beyond who it acts for. */
enum auth_scope {
    SCOPE_READ = 1,
    SCOPE_SUBMIT = 2, /* whatever changes something */
    SCOPE_ADMIN = 4,
    SCOPE_METRICS = 8,
    SCOPE_ALL = 15
};
/* A scope's name, and back: 0 is none. */
const char *auth_scope_name(unsigned scope);
unsigned auth_scope_parse(const char *name);
/* With those that a scope brings along: submit reads, reading is enough for
 * the figures. */
unsigned auth_scopes_implied(unsigned scopes);

/* ERR_DENIED for the uid of nobody-knows-whom (unmapped user namespaces). */
int auth_identify(int fd, const char *admin_group, struct auth_peer *out,
                  struct err *err);

enum auth_role { AUTH_OWNER, AUTH_ADMIN, AUTH_OTHER, AUTH_ROLE_COUNT };
enum auth_answer {
    AUTH_ALLOW,
    AUTH_DENY, /* "permission denied" */
    AUTH_HIDE  /* as if there were no such job */
};

enum auth_role auth_role(const struct auth_peer *peer, int64_t job_uid);
enum auth_answer auth_decide(enum message_id message, enum auth_role role,
                             enum conf_visibility visibility);

#endif
