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
};

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
