/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/auth.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

/* Every message for every role: a new verb must be added here, on purpose. */
static const char *const anybody[] = {
    "ping",   "validate",     "submit",       "list",   "events",
    "tokens", "token_create", "token_revoke", "devices"};
static const char *const owners[] = {
    "status",    "attempts",    "metrics",     "scale",    "skips",
    "incidents", "evaluations", "checkpoints", "incident", "guards",
    "rollbacks", "checkpoint",  "rollback",    "pause",    "resume",
    "priority",  "cancel",      "wait",        "follow",   "paths"};
static const char *const nobody[] = {"start", "order", "checkin", "beat"};

static bool
is_in(const char *name, const char *const *list, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (strcmp(list[i], name) == 0)
            return true;
    return false;
}

static void
test_auth_matrix(void **ctx)
{
    (void)ctx;
    for (int m = 0; m < MESSAGE_ID_COUNT; m++) {
        const char *name = message_table[m].name;
        enum message_id id = (enum message_id)m;
        bool any = is_in(name, anybody, 9), owner = is_in(name, owners, 20);

        bool admin = strcmp(name, "fsck") == 0;

        assert_int_equal(any + owner + admin + is_in(name, nobody, 4), 1);
        for (int r = 0; r < AUTH_ROLE_COUNT; r++) {
            enum auth_role role = (enum auth_role)r;
            bool in = any || (owner && role != AUTH_OTHER) ||
                      (admin && role == AUTH_ADMIN);

            assert_int_equal(auth_decide(id, role, CONF_OWN), in ? AUTH_ALLOW
                                                              : owner
                                                                  ? AUTH_HIDE
                                                                  : AUTH_DENY);
            assert_int_equal(auth_decide(id, role, CONF_PUBLIC),
                             in ? AUTH_ALLOW : AUTH_DENY);
        }
    }
}

static void
test_auth_scopes(void **ctx)
{
    (void)ctx;
    for (unsigned scope = 1; scope <= SCOPE_ALL; scope *= 2)
        assert_int_equal(auth_scope_parse(auth_scope_name(scope)), scope);
    assert_int_equal(auth_scope_parse("root"), 0);
    assert_int_equal(auth_scopes_implied(SCOPE_METRICS), SCOPE_METRICS);
    assert_int_equal(auth_scopes_implied(SCOPE_READ),
                     SCOPE_READ | SCOPE_METRICS);
    assert_int_equal(auth_scopes_implied(SCOPE_SUBMIT),
                     SCOPE_SUBMIT | SCOPE_READ | SCOPE_METRICS);
    assert_int_equal(auth_scopes_implied(SCOPE_ADMIN), SCOPE_ALL);
    assert_int_equal(auth_scopes_implied(0), 0);
}

static void
test_auth_roles(void **ctx)
{
    const struct auth_peer admin = {.uid = 0, .admin = true};
    const struct auth_peer user = {.uid = 1000};

    (void)ctx;
    assert_int_equal(auth_role(&admin, 1000), AUTH_ADMIN);
    assert_int_equal(auth_role(&user, 1000), AUTH_OWNER);
    assert_int_equal(auth_role(&user, 1001), AUTH_OTHER);
    assert_int_equal(auth_role(&user, 0), AUTH_OTHER);
}

static void
test_auth_identifies_this_process(void **ctx)
{
    struct auth_peer peer;
    struct err err;
    int pair[2];

    (void)ctx;
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
    assert_int_equal(auth_identify(pair[0], "no-such-group", &peer, &err), 0);
    assert_int_equal(peer.uid, getuid());
    assert_int_equal(peer.gid, getgid());
    assert_int_equal(peer.pid, getpid());
    assert_true(peer.admin); /* whoever runs the daemon */
    close(pair[0]);
    close(pair[1]);
    assert_int_equal(auth_identify(pair[0], "", &peer, &err), ERR_DENIED);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_auth_matrix),
        cmocka_unit_test(test_auth_scopes),
        cmocka_unit_test(test_auth_roles),
        cmocka_unit_test(test_auth_identifies_this_process),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
