/* SPDX-License-Identifier: Apache-2.0 */
/*
 * http_listen: the TCP address that HTTP is served at.
 *
 * An address beyond loopback is refused unless there is a certificate: tokens
 * never travel in clear over a wire. The Unix socket is listen.h's business.
 */
#ifndef DAEMON_HTTP_LISTEN_H
#define DAEMON_HTTP_LISTEN_H

#include "proto/err.h"

#include <stdbool.h>

/* "ADDRESS:PORT", numeric, IPv6 in brackets; or localhost. *fd is bound and
 * listening, not blocking; *port is the one it got (0 asks for any).
 * ERR_CONFIG; ERR_AGAIN when the address is in use. */
int http_listen_open(const char *address, bool tls, int *fd, int *port,
                     struct err *err);

#endif
