/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/http_listen.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define BACKLOG 128

/* host and port of "host:port". */
static int
split(const char *address, char *host, size_t size, const char **port,
      struct err *err)
{
    const char *colon = strrchr(address, ':');
    const char *begin = address;
    size_t n = colon != NULL ? (size_t)(colon - address) : 0;

    if (n > 2 && address[0] == '[' && colon[-1] == ']') {
        begin++;
        n -= 2;
    } else if (n > 0 && memchr(address, ':', n) != NULL) {
        n = 0; /* a bare IPv6 address */
    }
    if (n == 0 || n >= size || colon[1] == '\0')
        return err_set(err, ERR_CONFIG,
                       "http.listen: \"%.100s\" is no ADDRESS:PORT such as "
                       "127.0.0.1:9477 or [::1]:9477",
                       address);
    memcpy(host, begin, n);
    host[n] = '\0';
    *port = colon + 1;
    return 0;
}

static bool
is_loopback(const struct sockaddr *sa)
{
    const struct sockaddr_in *in = (const void *)sa;
    const struct sockaddr_in6 *in6 = (const void *)sa;

    if (sa->sa_family == AF_INET)
        return (ntohl(in->sin_addr.s_addr) >> 24) == 127;
    return IN6_IS_ADDR_LOOPBACK(&in6->sin6_addr);
}

static int
bind_and_listen(const struct addrinfo *ai, const char *address, int *out,
                struct err *err)
{
    const int yes = 1;
    int fd =
        socket(ai->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

    if (fd < 0)
        return err_set_errno(err, ERR_IO, errno, "http.listen: %s", address);
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
    if (ai->ai_family == AF_INET6)
        setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &yes, sizeof(yes));
    if (bind(fd, ai->ai_addr, ai->ai_addrlen) != 0 ||
        listen(fd, BACKLOG) != 0) {
        int rc =
            err_set_errno(err, errno == EADDRINUSE ? ERR_AGAIN : ERR_CONFIG,
                          errno, "http.listen: %s", address);

        close(fd);
        return rc;
    }
    *out = fd;
    return 0;
}

static int
port_of(int fd)
{
    struct sockaddr_storage ss;
    socklen_t len = sizeof(ss);

    if (getsockname(fd, (struct sockaddr *)&ss, &len) != 0)
        return 0;
    return ntohs(ss.ss_family == AF_INET
                     ? ((struct sockaddr_in *)&ss)->sin_port
                     : ((struct sockaddr_in6 *)&ss)->sin6_port);
}

int
http_listen_open(const char *address, bool tls, int *fd, int *port,
                 struct err *err)
{
    const struct addrinfo hints = {.ai_family = AF_UNSPEC,
                                   .ai_socktype = SOCK_STREAM,
                                   .ai_flags = AI_NUMERICHOST | AI_NUMERICSERV |
                                               AI_PASSIVE};
    struct addrinfo *ai = NULL;
    const char *service = "";
    char host[128];
    int rc = split(address, host, sizeof(host), &service, err);

    *fd = -1;
    if (rc != 0)
        return rc;
    if (strcmp(host, "localhost") == 0)
        strcpy(host, "127.0.0.1");
    rc = getaddrinfo(host, service, &hints, &ai);
    if (rc != 0)
        return err_set(err, ERR_CONFIG, "http.listen: \"%.100s\": %s", address,
                       gai_strerror(rc));
    if (!tls && !is_loopback(ai->ai_addr))
        rc = err_set(err, ERR_CONFIG,
                     "http.listen: %.100s is reached from other machines: it "
                     "needs http.tls_cert and http.tls_key",
                     address);
    else
        rc = bind_and_listen(ai, address, fd, err);
    freeaddrinfo(ai);
    if (rc == 0)
        *port = port_of(*fd);
    return rc;
}
