/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/base/failpoint.h"

#include <ctype.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#define NAME_MAX_BYTES 64

enum arming { ARMING_UNKNOWN, ARMING_OFF, ARMING_ON };

static atomic_int arming = ARMING_UNKNOWN;
static pthread_once_t from_environment = PTHREAD_ONCE_INIT;
static atomic_long hits_left;
static char armed_name[NAME_MAX_BYTES];
static int armed_errno; /* 0: kill */

static const struct {
    const char *name;
    int value;
} errnos[] = {
    {"ENOSPC", ENOSPC}, {"EDQUOT", EDQUOT}, {"EFBIG", EFBIG},
    {"EIO", EIO},       {"EACCES", EACCES}, {"ENOMEM", ENOMEM},
};

static int
parse_errno(const char *text)
{
    for (size_t i = 0; i < sizeof(errnos) / sizeof(errnos[0]); i++)
        if (strcmp(text, errnos[i].name) == 0)
            return errnos[i].value;
    return 0;
}

bool
failpoint_arm(const char *text)
{
    const size_t n_name = text != NULL ? strcspn(text, ":=") : 0;
    const char *rest;
    long count = 1;
    int errnum = 0;

    atomic_store(&arming, ARMING_OFF);
    if (n_name == 0 || n_name >= sizeof(armed_name))
        return false;
    rest = text + n_name;
    if (*rest == ':') {
        char *end;

        if (!isdigit((unsigned char)rest[1]))
            return false;
        count = strtol(rest + 1, &end, 10);
        rest = end;
    }
    if (*rest == '=') {
        errnum = parse_errno(rest + 1);
        if (errnum == 0)
            return false;
    } else if (*rest != '\0') {
        return false;
    }
    if (count < 1)
        return false;
    memcpy(armed_name, text, n_name);
    armed_name[n_name] = '\0';
    armed_errno = errnum;
    atomic_store(&hits_left, count);
    atomic_store(&arming, ARMING_ON);
    return true;
}

static void
read_environment(void)
{
    if (atomic_load(&arming) == ARMING_UNKNOWN)
        failpoint_arm(getenv("TRAIND_FAILPOINT"));
}

int
failpoint_hit(const char *name)
{
    if (atomic_load_explicit(&arming, memory_order_relaxed) == ARMING_OFF)
        return 0;
    pthread_once(&from_environment, read_environment);
    if (atomic_load(&arming) != ARMING_ON || strcmp(name, armed_name) != 0)
        return 0;
    if (atomic_fetch_sub(&hits_left, 1) != 1)
        return 0;
    if (armed_errno == 0)
        raise(SIGKILL);
    return armed_errno;
}
