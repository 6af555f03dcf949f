/* SPDX-License-Identifier: Apache-2.0 */
/*
 * log: lines for the operator on stderr.
 *
 * Only daemon/ logs. A line starts with its object ("job 17: worker 4242:
 * ..."), is one line whatever the arguments hold, and carries a <N> prefix
 * when stderr is the journal ($JOURNAL_STREAM), else a timestamp. The level
 * and the style are the one piece of state in daemon/ that is not reached
 * through a pointer: whoever has something to say must be able to say it.
 * errno survives every call. Loop's thread only.
 */
#ifndef DAEMON_LOG_H
#define DAEMON_LOG_H

enum log_level {
    LOG_LEVEL_ERR,
    LOG_LEVEL_WARN,
    LOG_LEVEL_INFO,
    LOG_LEVEL_DEBUG
};

/* Looks at stderr and $JOURNAL_STREAM. Before it: timestamps, level info. */
void log_open(void);
void log_set_level(enum log_level level);

/* log_err and log_warn append strerror(errno), the others do not. */
void log_err(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
void log_errx(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
void log_warn(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
void log_warnx(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
void log_info(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
void log_debug(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

#endif
