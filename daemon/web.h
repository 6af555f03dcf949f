/* SPDX-License-Identifier: Apache-2.0 */
/*
 * web: the dashboard's files, inside the program.
 *
 * Owns nothing that changes: a table that the build makes of the files in
 * web/files.def, and of dygraphs from its Debian package. No file is opened
 * when the daemon runs. Any thread.
 */
#ifndef DAEMON_WEB_H
#define DAEMON_WEB_H

#include <stddef.h>

struct web_file {
    const char *path; /* of the request, without its query: "/app.js" */
    const char *type; /* Content-Type */
    const unsigned char *data;
    size_t len;
    const char *etag; /* quoted, of the bytes */
};

/* NULL: there is no such file. "/" is the page itself. */
const struct web_file *web_find(const char *path);

/* The table: made by web/embed.cmake. */
extern const struct web_file web_table[];
extern const size_t web_table_len;

#endif
