/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/options.h"

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define SYSTEM_CONFIG "/etc/traind/traind.conf"

const char *const options_usage =
    "usage: traind [--user | --system] [--config FILE] [--state-dir DIR]\n"
    "              [--socket PATH] [--worker PATH] [--check-config]\n"
    "       traind --version | --help\n"
    "\n"
    "Runs in the foreground: queues and supervises training jobs.\n"
    "  --user          own paths below $XDG_*; the default when not root\n"
    "  --system        /etc/traind, /var/lib/traind, /run/traind\n"
    "  --config FILE   instead of the usual traind.conf\n"
    "  --state-dir DIR where jobs and the database are\n"
    "  --socket PATH   the control socket\n"
    "  --worker PATH   traind-worker; default: beside traind, or in libexec\n"
    "  --check-config  print the configuration in force and exit\n";

int
options_parse(int argc, char **argv, struct options *o, struct err *err)
{
    static const struct option table[] = {
        {"user", no_argument, NULL, 'u'},
        {"system", no_argument, NULL, 's'},
        {"foreground", no_argument, NULL, 'f'},
        {"config", required_argument, NULL, 'c'},
        {"state-dir", required_argument, NULL, 'd'},
        {"socket", required_argument, NULL, 'S'},
        {"worker", required_argument, NULL, 'w'},
        {"check-config", no_argument, NULL, 'C'},
        {"version", no_argument, NULL, 'V'},
        {"help", no_argument, NULL, 'h'},
        {NULL, 0, NULL, 0}};
    int c;

    memset(o, 0, sizeof(*o));
    o->system = geteuid() == 0;
    opterr = 0;
    optind = 1;
    while ((c = getopt_long(argc, argv, "", table, NULL)) != -1) {
        switch (c) {
        case 'u': o->system = false; break;
        case 's': o->system = true; break;
        case 'f': break; /* there is no other way */
        case 'c': o->config = optarg; break;
        case 'd': o->state_dir = optarg; break;
        case 'S': o->socket = optarg; break;
        case 'w': o->worker = optarg; break;
        case 'C': o->action = OPTIONS_CHECK_CONFIG; break;
        case 'V': o->action = OPTIONS_VERSION; return 0;
        case 'h': o->action = OPTIONS_HELP; return 0;
        default:
            return err_set(err, ERR_USAGE,
                           "%s: unknown, ambiguous or without its value",
                           argv[optind - 1]);
        }
    }
    if (optind < argc)
        return err_set(err, ERR_USAGE, "%s: traind takes no arguments",
                       argv[optind]);
    return 0;
}

/* ---- places ---------------------------------------------------------------*/

/* $name/rest, or $HOME/fallback/rest. */
static int
xdg_path(const char *name, const char *fallback, const char *rest, char *out,
         size_t size, struct err *err)
{
    const char *dir = getenv(name), *home = getenv("HOME");
    int n;

    if (dir != NULL && dir[0] == '/')
        n = snprintf(out, size, "%s/%s", dir, rest);
    else if (home != NULL && home[0] == '/')
        n = snprintf(out, size, "%s/%s/%s", home, fallback, rest);
    else
        return err_set(err, ERR_CONFIG, "neither $%s nor $HOME is set", name);
    if (n >= (int)size)
        return err_set(err, ERR_CONFIG, "%s: path too long", out);
    return 0;
}

static bool
is_own_directory(const char *path)
{
    struct stat st;

    return lstat(path, &st) == 0 && S_ISDIR(st.st_mode) &&
           st.st_uid == geteuid();
}

/* The client looks in the same places in the same order. */
static void
user_socket_dir(char *out, size_t size)
{
    const char *run = getenv("XDG_RUNTIME_DIR"), *tmp = getenv("TMPDIR");

    if (run != NULL && run[0] == '/' && is_own_directory(run))
        snprintf(out, size, "%s/traind", run);
    else
        snprintf(out, size, "%s/traind-%u",
                 tmp != NULL && tmp[0] == '/' ? tmp : "/tmp",
                 (unsigned)geteuid());
}

static int
fill_places(const struct options *o, struct conf *conf, struct err *err)
{
    const bool usual = conf->control_socket[0] == '\0';
    char dir[CONF_STR_MAX / 2];
    int rc = 0;

    if (conf->daemon_state_dir[0] == '\0' && o->system)
        strcpy(conf->daemon_state_dir, "/var/lib/traind");
    else if (conf->daemon_state_dir[0] == '\0')
        rc = xdg_path("XDG_STATE_HOME", ".local/state", "traind",
                      conf->daemon_state_dir, CONF_STR_MAX, err);
    if (conf->control_socket[0] == '\0' && o->system) {
        strcpy(conf->control_socket, "/run/traind/ctl.sock");
    } else if (conf->control_socket[0] == '\0') {
        user_socket_dir(dir, sizeof(dir));
        snprintf(conf->control_socket, CONF_STR_MAX, "%s/ctl.sock", dir);
    }
    if (usual && conf->http_socket[0] == '\0')
        snprintf(conf->http_socket, CONF_STR_MAX, "%.*shttp.sock",
                 (int)(strrchr(conf->control_socket, '/') + 1 -
                       conf->control_socket),
                 conf->control_socket);
    /* A port is everybody's: a daemon of one's own takes it when told to. */
    if (usual && conf->http_listen[0] == '\0' && o->system)
        strcpy(conf->http_listen, "127.0.0.1:9477");
    return rc;
}

static int
make_absolute(char *path, const char *what, struct err *err)
{
    char cwd[CONF_STR_MAX], whole[2 * CONF_STR_MAX];

    if (path[0] == '/')
        return 0;
    if (getcwd(cwd, sizeof(cwd)) == NULL)
        return err_set_errno(err, ERR_CONFIG, errno, "%s", what);
    snprintf(whole, sizeof(whole), "%s/%s", cwd, path);
    if (strlen(whole) >= CONF_STR_MAX)
        return err_set(err, ERR_CONFIG, "%s: path too long", what);
    strcpy(path, whole);
    return 0;
}

static int
override(char *field, const char *value, const char *what, struct err *err)
{
    if (value == NULL)
        return 0;
    if (strlen(value) >= CONF_STR_MAX || value[0] == '\0')
        return err_set(err, ERR_USAGE, "%s: empty or too long", what);
    strcpy(field, value);
    return 0;
}

int
options_load_conf(const struct options *o, struct conf *conf, struct err *err)
{
    char usual[CONF_STR_MAX] = SYSTEM_CONFIG;
    int rc = 0;

    conf_default(conf);
    if (o->system) {
        /* As packages set it up; the file may say otherwise. */
        conf->control_mode = 0660;
        strcpy(conf->control_group, "trainers");
    }
    if (o->config == NULL && !o->system &&
        xdg_path("XDG_CONFIG_HOME", ".config", "traind/traind.conf", usual,
                 sizeof(usual), err) != 0)
        usual[0] = '\0'; /* no home, no file */
    if (o->config != NULL || usual[0] != '\0')
        rc = conf_load(conf, o->config != NULL ? o->config : usual,
                       o->config != NULL, err);
    if (rc == 0)
        rc = override(conf->daemon_state_dir, o->state_dir, "--state-dir", err);
    if (rc == 0)
        rc = override(conf->control_socket, o->socket, "--socket", err);
    if (rc == 0)
        rc = fill_places(o, conf, err);
    if (rc == 0)
        rc = make_absolute(conf->daemon_state_dir, "daemon.state_dir", err);
    if (rc == 0)
        rc = make_absolute(conf->control_socket, "control.socket", err);
    if (rc == 0 && conf->http_socket[0] != '\0' &&
        strcmp(conf->http_socket, "off") != 0)
        rc = make_absolute(conf->http_socket, "http.socket", err);
    return rc;
}

int
options_prepare_socket_dir(const struct options *o, const struct conf *conf,
                           struct err *err)
{
    char dir[CONF_STR_MAX], usual[CONF_STR_MAX / 2] = "/run/traind";
    struct stat st;

    if (!o->system)
        user_socket_dir(usual, sizeof(usual));
    snprintf(dir, sizeof(dir), "%s", conf->control_socket);
    *strrchr(dir, '/') = '\0';
    if (strcmp(dir, usual) != 0)
        return 0; /* somebody else's to make */
    if (mkdir(dir, 0700) == 0) {
        if (o->system && chmod(dir, 0755) != 0)
            return err_set_errno(err, ERR_IO, errno, "%s", dir);
    } else if (errno != EEXIST) {
        return err_set_errno(err, ERR_IO, errno, "%s", dir);
    }
    if (lstat(dir, &st) != 0)
        return err_set_errno(err, ERR_IO, errno, "%s", dir);
    if (!S_ISDIR(st.st_mode) || st.st_uid != geteuid() ||
        (st.st_mode & 022) != 0)
        return err_set(err, ERR_CONFIG,
                       "%s: not a directory that only uid %u may write to", dir,
                       (unsigned)geteuid());
    return 0;
}

int
options_find_program(const char *name, char *out, size_t size, struct err *err)
{
    char self[DAEMON_PATH_MAX / 2];
    ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);
    char *slash;

    if (n <= 0 || n >= (ssize_t)sizeof(self) - 1)
        return err_set_errno(err, ERR_IO, errno, "/proc/self/exe");
    self[n] = '\0';
    slash = strrchr(self, '/');
    *slash = '\0';
    snprintf(out, size, "%s/%s", self, name);
    if (access(out, X_OK) == 0)
        return 0;
    snprintf(out, size, "%s/../libexec/traind/%s", self, name);
    if (access(out, X_OK) == 0)
        return 0;
    return err_set(err, ERR_CONFIG,
                   "%s is neither in %s nor in ../libexec/traind", name, self);
}
