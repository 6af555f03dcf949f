/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/auth.h"

#include <assert.h>
#include <errno.h>
#include <grp.h>
#include <pwd.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define OVERFLOW_UID 65534
#define MAX_GROUPS   65536

#ifndef SO_PEERGROUPS
#define SO_PEERGROUPS 59
#endif

static bool
holds(const gid_t *groups, size_t n, gid_t gid)
{
    for (size_t i = 0; i < n; i++)
        if (groups[i] == gid)
            return true;
    return false;
}

/* Groups as of connect(2), from the kernel; *n < 0 when it cannot tell. */
static gid_t *
peer_groups(int fd, int *n)
{
    socklen_t len = 64 * sizeof(gid_t);
    gid_t *groups = malloc(len);

    while (groups != NULL &&
           getsockopt(fd, SOL_SOCKET, SO_PEERGROUPS, groups, &len) != 0) {
        free(groups);
        groups = NULL;
        if (errno == ERANGE && len <= MAX_GROUPS * sizeof(gid_t))
            groups = malloc(len);
    }
    *n = groups == NULL ? -1 : (int)(len / sizeof(gid_t));
    return groups;
}

static gid_t *
listed_groups(const struct auth_peer *peer, int *n)
{
    const struct passwd *pw = getpwuid(peer->uid);
    gid_t *groups = malloc(1024 * sizeof(gid_t));

    *n = 1024;
    if (pw == NULL || groups == NULL ||
        getgrouplist(pw->pw_name, peer->gid, groups, n) < 0)
        *n = 0;
    return groups;
}

static bool
is_member(int fd, const struct auth_peer *peer, const char *name)
{
    const struct group *group = name[0] == '\0' ? NULL : getgrnam(name);
    gid_t gid, *groups;
    bool found;
    int n;

    if (group == NULL)
        return false;
    gid = group->gr_gid;
    if (peer->gid == gid)
        return true;
    groups = peer_groups(fd, &n);
    if (n < 0) {
        free(groups);
        groups = listed_groups(peer, &n);
    }
    found = n > 0 && holds(groups, (size_t)n, gid);
    free(groups);
    return found;
}

int
auth_identify(int fd, const char *admin_group, struct auth_peer *out,
              struct err *err)
{
    struct ucred cred;
    socklen_t len = sizeof(cred);

    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &len) != 0)
        return err_set_errno(err, ERR_DENIED, errno, "who is connecting");
    if (cred.uid == OVERFLOW_UID && geteuid() != OVERFLOW_UID)
        return err_set(err, ERR_DENIED,
                       "uid %d stands for users of another namespace",
                       OVERFLOW_UID);
    out->uid = cred.uid;
    out->gid = cred.gid;
    out->pid = cred.pid;
    out->scopes = SCOPE_ALL;
    out->token = 0;
    /* Whoever owns the daemon could do it all by hand. */
    out->admin = cred.uid == 0 || cred.uid == geteuid() ||
                 is_member(fd, out, admin_group);
    return 0;
}

/* ---- scopes ---------------------------------------------------------------*/

static const struct {
    unsigned scope;
    const char *name;
} scopes[] = {{SCOPE_READ, "read"},
              {SCOPE_SUBMIT, "submit"},
              {SCOPE_ADMIN, "admin"},
              {SCOPE_METRICS, "metrics"}};

const char *
auth_scope_name(unsigned scope)
{
    for (size_t i = 0; i < sizeof(scopes) / sizeof(scopes[0]); i++)
        if (scopes[i].scope == scope)
            return scopes[i].name;
    return "";
}

unsigned
auth_scope_parse(const char *name)
{
    for (size_t i = 0; i < sizeof(scopes) / sizeof(scopes[0]); i++)
        if (strcmp(scopes[i].name, name) == 0)
            return scopes[i].scope;
    return 0;
}

unsigned
auth_scopes_implied(unsigned given)
{
    if ((given & SCOPE_ADMIN) != 0)
        given |= SCOPE_SUBMIT;
    if ((given & SCOPE_SUBMIT) != 0)
        given |= SCOPE_READ;
    if ((given & SCOPE_READ) != 0)
        given |= SCOPE_METRICS;
    return given;
}

enum auth_role
auth_role(const struct auth_peer *peer, int64_t job_uid)
{
    if (peer->admin)
        return AUTH_ADMIN;
    return (int64_t)peer->uid == job_uid ? AUTH_OWNER : AUTH_OTHER;
}

enum auth_answer
auth_decide(enum message_id message, enum auth_role role,
            enum conf_visibility visibility)
{
    assert(message < MESSAGE_ID_COUNT);
    switch (message_table[message].right) {
    case MESSAGE_ANY: return AUTH_ALLOW;
    case MESSAGE_OWNER:
        if (role != AUTH_OTHER)
            return AUTH_ALLOW;
        return visibility == CONF_PUBLIC ? AUTH_DENY : AUTH_HIDE;
    case MESSAGE_ADMIN: return role == AUTH_ADMIN ? AUTH_ALLOW : AUTH_DENY;
    case MESSAGE_NONE: return AUTH_DENY;
    }
    return AUTH_DENY;
}
