/* SPDX-License-Identifier: Apache-2.0 */
/*
 * exec_helper: program traind-exec, between the daemon and a worker.
 *
 * The daemon forks it in a moment; it then does, in an order that matters,
 * what must be done in the worker's own process: session, scheduling, limits,
 * rights of the submitter, death signal, directory, output files, and becomes
 * traind-worker. It opens the output files with the submitter's rights, never
 * with more. If anything is not as it must be, it says so in one sentence on
 * fd 4, which closes by itself once the worker runs, and exits.
 */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <grp.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#define STATUS_FD    4
#define FIRST_FREE   5
#define EXIT_REFUSED 126
#define OOM_SCORE    "500"
#define SOFT_NOFILE  1024

struct order {
    pid_t parent;
    const char *dir, *logs, *user, *cpus;
    uid_t uid;
    gid_t gid;
    char **worker; /* argument vector */
};

static void refuse(int errnum, const char *fmt, ...)
    __attribute__((noreturn, format(printf, 2, 3)));

static void
refuse(int errnum, const char *fmt, ...)
{
    char text[400], reason[96];
    int n, more = 0;
    va_list ap;

    va_start(ap, fmt);
    n = vsnprintf(text, sizeof(text) - sizeof(reason) - 2, fmt, ap);
    va_end(ap);
    if (n >= (int)(sizeof(text) - sizeof(reason) - 2))
        n = (int)(sizeof(text) - sizeof(reason) - 3);
    if (errnum != 0)
        more = snprintf(text + n, sizeof(text) - (size_t)n, ": %s",
                        strerror_r(errnum, reason, sizeof(reason)));
    if (write(STATUS_FD, text, (size_t)(n + more)) < 0)
        _exit(EXIT_REFUSED);
    _exit(EXIT_REFUSED);
}

static void
read_order(int argc, char **argv, struct order *o)
{
    static const struct option options[] = {
        {"parent", required_argument, NULL, 'p'},
        {"dir", required_argument, NULL, 'd'},
        {"logs", required_argument, NULL, 'l'},
        {"user", required_argument, NULL, 'n'},
        {"uid", required_argument, NULL, 'u'},
        {"gid", required_argument, NULL, 'g'},
        {"cpus", required_argument, NULL, 'c'},
        {NULL, 0, NULL, 0}};
    int c;

    memset(o, 0, sizeof(*o));
    o->user = o->cpus = "";
    while ((c = getopt_long(argc, argv, "+", options, NULL)) != -1) {
        switch (c) {
        case 'p': o->parent = (pid_t)atol(optarg); break;
        case 'd': o->dir = optarg; break;
        case 'l': o->logs = optarg; break;
        case 'n': o->user = optarg; break;
        case 'u': o->uid = (uid_t)strtoul(optarg, NULL, 10); break;
        case 'g': o->gid = (gid_t)strtoul(optarg, NULL, 10); break;
        case 'c': o->cpus = optarg; break;
        default: refuse(0, "traind-exec is started by traind only");
        }
    }
    o->worker = argv + optind;
    if (o->parent <= 1 || o->dir == NULL || o->logs == NULL ||
        o->worker[0] == NULL)
        refuse(0, "traind-exec is started by traind only");
}

static void
become_leader(void)
{
    if (getsid(0) != getpid() && setsid() < 0)
        refuse(errno, "session");
}

/* Better a worker than the daemon, when memory runs out. Not a must: a
 * container may forbid it. */
static void
offer_to_oom_killer(void)
{
    int fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);

    if (fd < 0)
        return;
    if (write(fd, OOM_SCORE, strlen(OOM_SCORE)) < 0)
        errno = 0;
    close(fd);
}

static void
set_limits(void)
{
    struct rlimit core = {0, 0}, files;

    umask(0027);
    if (setrlimit(RLIMIT_CORE, &core) != 0)
        refuse(errno, "core limit");
    /* The daemon raised its own; select(2) in a library need not cope. */
    if (getrlimit(RLIMIT_NOFILE, &files) == 0 && files.rlim_cur > SOFT_NOFILE) {
        files.rlim_cur = SOFT_NOFILE;
        if (setrlimit(RLIMIT_NOFILE, &files) != 0)
            refuse(errno, "limit of open files");
    }
}

static void
bind_to_cpus(const char *list)
{
    cpu_set_t set;

    if (list[0] == '\0')
        return;
    CPU_ZERO(&set);
    for (const char *p = list; *p != '\0';) {
        char *end;
        long cpu = strtol(p, &end, 10);

        if (end == p || cpu < 0 || cpu >= CPU_SETSIZE)
            refuse(0, "processors %s", list);
        CPU_SET((int)cpu, &set);
        p = *end == ',' ? end + 1 : end;
    }
    if (sched_setaffinity(0, sizeof(set), &set) != 0)
        refuse(errno, "processors %s", list);
}

/* All three ids at once and for good; then make sure of it. */
static void
take_rights(const struct order *o)
{
    uid_t r, e, s;
    gid_t rg, eg, sg;

    if (o->user[0] != '\0') {
        if (o->uid == 0)
            refuse(0, "no user's rights to take");
        if (initgroups(o->user, o->gid) != 0)
            refuse(errno, "groups of %s", o->user);
        if (setresgid(o->gid, o->gid, o->gid) != 0)
            refuse(errno, "gid %u", (unsigned)o->gid);
        if (setresuid(o->uid, o->uid, o->uid) != 0)
            refuse(errno, "uid %u", (unsigned)o->uid);
        if (getresuid(&r, &e, &s) != 0 || r != o->uid || e != o->uid ||
            s != o->uid || getresgid(&rg, &eg, &sg) != 0 || rg != o->gid ||
            eg != o->gid || sg != o->gid || setuid(0) == 0)
            refuse(0, "the rights of %s were not taken over", o->user);
    }
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0)
        refuse(errno, "no new privileges");
}

/* After the last change of credentials, which clears it. */
static void
die_with_parent(pid_t parent)
{
    if (prctl(PR_SET_PDEATHSIG, SIGTERM, 0, 0, 0) != 0)
        refuse(errno, "death signal");
    /* It may be dead already. */
    if (getppid() != parent)
        _exit(EXIT_REFUSED);
}

static void
reset_signals(void)
{
    sigset_t none;

    for (int i = 1; i < NSIG; i++)
        signal(i, SIG_DFL);
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
}

static void
open_output(const char *logs)
{
    static const char *const name[] = {"stdout", "stderr"};
    int dir = open(logs, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

    if (dir < 0)
        refuse(errno, "%s", logs);
    for (int i = 0; i < 2; i++) {
        int fd = openat(dir, name[i],
                        O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW | O_CLOEXEC,
                        0640);

        if (fd < 0 || dup2(fd, STDOUT_FILENO + i) < 0)
            refuse(errno, "%s/%s", logs, name[i]);
        close(fd);
    }
    close(dir);
}

int
main(int argc, char **argv)
{
    struct order o;

    read_order(argc, argv, &o);
    if (fcntl(STATUS_FD, F_SETFD, FD_CLOEXEC) != 0)
        return EXIT_REFUSED;
    close_range(FIRST_FREE, ~0U, 0);
    become_leader();
    offer_to_oom_killer();
    set_limits();
    bind_to_cpus(o.cpus);
    take_rights(&o);
    die_with_parent(o.parent);
    if (chdir(o.dir) != 0)
        refuse(errno, "%s", o.dir);
    open_output(o.logs);
    reset_signals();
    execv(o.worker[0], o.worker);
    refuse(errno, "%s", o.worker[0]);
}
