/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/log.h"

#include <errno.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define LINE_MAX_BYTES 2048

static struct {
    enum log_level level;
    bool journal;
} style = {LOG_LEVEL_INFO, false};

/* Numbers of syslog(3), as sd-daemon(3) wants them. */
static const int priority[] = {
    [LOG_LEVEL_ERR] = 3,
    [LOG_LEVEL_WARN] = 4,
    [LOG_LEVEL_INFO] = 6,
    [LOG_LEVEL_DEBUG] = 7,
};
static const char *const word[] = {
    [LOG_LEVEL_ERR] = "error: ",
    [LOG_LEVEL_WARN] = "warning: ",
    [LOG_LEVEL_INFO] = "",
    [LOG_LEVEL_DEBUG] = "debug: ",
};

void
log_open(void)
{
    const char *stream = getenv("JOURNAL_STREAM");
    unsigned long long dev, ino;
    struct stat st;

    style.journal =
        stream != NULL && sscanf(stream, "%llu:%llu", &dev, &ino) == 2 &&
        fstat(STDERR_FILENO, &st) == 0 && st.st_dev == dev && st.st_ino == ino;
}

void
log_set_level(enum log_level level)
{
    style.level = level;
}

static size_t
put_head(char *line, size_t size, enum log_level level)
{
    struct timespec now;
    struct tm tm;
    size_t n;

    if (style.journal)
        return (size_t)snprintf(line, size, "<%d>", priority[level]);
    clock_gettime(CLOCK_REALTIME, &now);
    localtime_r(&now.tv_sec, &tm);
    n = strftime(line, size, "%Y-%m-%dT%H:%M:%S", &tm);
    n += (size_t)snprintf(line + n, size - n, ".%03ld", now.tv_nsec / 1000000);
    n += strftime(line + n, size - n, "%z ", &tm);
    return n + (size_t)snprintf(line + n, size - n, "%s", word[level]);
}

/* One write(2) a line, so that lines of several processes do not mix. */
static void
put_line(enum log_level level, int errnum, const char *fmt, va_list ap)
{
    char line[LINE_MAX_BYTES], reason[96];
    size_t head, n;
    int saved = errno;

    if (level > style.level)
        return;
    head = n = put_head(line, sizeof(line), level);
    vsnprintf(line + n, sizeof(line) - n - 1, fmt, ap);
    n += strlen(line + n);
    if (errnum != 0) {
        snprintf(line + n, sizeof(line) - n - 1, ": %s",
                 strerror_r(errnum, reason, sizeof(reason)));
        n += strlen(line + n);
    }
    for (size_t i = head; i < n; i++)
        if ((unsigned char)line[i] < 0x20 || line[i] == 0x7f)
            line[i] = '?';
    line[n++] = '\n';
    /* Nowhere to tell that telling is impossible. */
    if (write(STDERR_FILENO, line, n) < 0)
        n = 0;
    errno = saved;
}

#define LOG_FUNCTION(name, level, errnum)                                      \
    void name(const char *fmt, ...)                                            \
    {                                                                          \
        va_list ap;                                                            \
                                                                               \
        va_start(ap, fmt);                                                     \
        put_line(level, errnum, fmt, ap);                                      \
        va_end(ap);                                                            \
    }

LOG_FUNCTION(log_err, LOG_LEVEL_ERR, errno)
LOG_FUNCTION(log_errx, LOG_LEVEL_ERR, 0)
LOG_FUNCTION(log_warn, LOG_LEVEL_WARN, errno)
LOG_FUNCTION(log_warnx, LOG_LEVEL_WARN, 0)
LOG_FUNCTION(log_info, LOG_LEVEL_INFO, 0)
LOG_FUNCTION(log_debug, LOG_LEVEL_DEBUG, 0)
