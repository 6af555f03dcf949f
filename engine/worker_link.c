/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/worker_link.h"

#include "engine/run/report.h"
#include "proto/frame.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <unistd.h>

#define BEAT_INTERVAL_MS 1000
#define OUT_MAX_BYTES    4096

struct worker_link {
    int fd; /* -1 after the end of the connection */
    int signal_fd, wake_fd;
    struct frame_reader *reader; /* owned */
    bool running;
    pthread_t thread;
    /* Rest of a frame that the socket did not take at once. */
    char out[OUT_MAX_BYTES];
    size_t out_len;
    bool beat_due;      /* one could not be sent */
    int64_t ping_token; /* of a ping not answered yet, else 0 */
    long page_bytes;
    /* Between the threads. */
    _Atomic unsigned orders;
    _Atomic int64_t iteration, events_bytes;
    _Atomic bool ending;
    pthread_mutex_t error_lock;
    struct err error;
};

/* ---- bytes ----------------------------------------------------------------*/

static void
hang_up(struct worker_link *l)
{
    if (l->fd >= 0)
        close(l->fd);
    l->fd = -1;
    l->out_len = 0;
    atomic_fetch_or(&l->orders, REPORT_STOP);
}

static void
fail(struct worker_link *l, const struct err *why)
{
    pthread_mutex_lock(&l->error_lock);
    if (l->error.code == 0)
        l->error = *why;
    pthread_mutex_unlock(&l->error_lock);
    hang_up(l);
}

static void
push_out(struct worker_link *l)
{
    size_t done = 0;

    while (done < l->out_len) {
        const ssize_t n = send(l->fd, l->out + done, l->out_len - done,
                               MSG_DONTWAIT | MSG_NOSIGNAL);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && errno != EAGAIN) {
            hang_up(l);
            return;
        }
        if (n <= 0)
            break;
        done += (size_t)n;
    }
    l->out_len -= done;
    memmove(l->out, l->out + done, l->out_len);
}

/* Takes the text; false when the socket is still busy with an earlier one. */
static bool
send_take(struct worker_link *l, char *text, size_t len)
{
    uint8_t header[FRAME_HEADER_BYTES];
    const bool fits = text != NULL && l->fd >= 0 && l->out_len == 0 &&
                      len + sizeof(header) <= sizeof(l->out);

    if (fits) {
        frame_write_header(header, len);
        memcpy(l->out, header, sizeof(header));
        memcpy(l->out + sizeof(header), text, len);
        l->out_len = len + sizeof(header);
        push_out(l);
    }
    free(text);
    return fits;
}

/* Reads what is there. 0, or ERR_INTERRUPTED at the end of the connection. */
static int
pull_in(struct worker_link *l, struct err *err)
{
    char bytes[65536];

    for (;;) {
        const ssize_t n = recv(l->fd, bytes, sizeof(bytes), MSG_DONTWAIT);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && errno == EAGAIN)
            return 0;
        if (n <= 0)
            return err_set(err, ERR_INTERRUPTED, "the daemon hung up");
        const int rc = frame_reader_feed(l->reader, bytes, (size_t)n, err);
        if (rc != 0)
            return err_prefix(err, "fd 3");
    }
}

/* ---- beats ----------------------------------------------------------------*/

static int64_t
resident_bytes(const struct worker_link *l)
{
    long long size, resident = 0;
    FILE *f = fopen("/proc/self/statm", "re");

    if (f == NULL)
        return 0;
    if (fscanf(f, "%lld %lld", &size, &resident) != 2)
        resident = 0;
    fclose(f);
    return resident * l->page_bytes;
}

static void
send_beat(struct worker_link *l)
{
    struct view_beat beat;
    size_t len;

    view_init(VIEW_ID_beat, &beat);
    beat.token = l->ping_token;
    beat.iteration = atomic_load(&l->iteration);
    beat.resident_bytes = resident_bytes(l);
    beat.events_bytes = atomic_load(&l->events_bytes);
    char *text = codec_write_one_way(MESSAGE_ID_beat, &beat, &len);
    l->beat_due = !send_take(l, text, len);
    if (!l->beat_due)
        l->ping_token = 0;
}

/* ---- frames ---------------------------------------------------------------*/

static int
take_order(struct worker_link *l, struct codec_doc *doc, struct err *err)
{
    struct view_order order;
    const int rc = codec_read(doc, 0, VIEW_ID_order, &order, err);

    if (rc != 0)
        return rc;
    if (strcmp(order.order, "checkpoint") == 0)
        atomic_fetch_or(&l->orders, REPORT_CHECKPOINT);
    else if (strcmp(order.order, "stop") == 0)
        atomic_fetch_or(&l->orders, REPORT_STOP);
    else if (strcmp(order.order, "abandon") == 0)
        atomic_fetch_or(&l->orders, REPORT_ABANDON);
    else if (strcmp(order.order, "ping") == 0)
        l->ping_token = order.token;
    else
        return err_set(err, ERR_PROTO, "fd 3: unknown order \"%.40s\"",
                       order.order);
    return 0;
}

/* One frame must be the message `expected`; its doc goes to *doc. */
static int
open_frame(const char *text, size_t len, enum message_id expected,
           struct codec_doc **doc, struct err *err)
{
    struct codec_envelope envelope;
    const int rc = codec_open(text, len, &envelope, doc, err);

    if (rc != 0)
        return err_prefix(err, "fd 3");
    if (envelope.kind == CODEC_ONE_WAY && envelope.message == expected)
        return 0;
    codec_doc_close(doc);
    return err_set(err, ERR_PROTO, "fd 3: expected the message %s",
                   message_table[expected].name);
}

static int
take_frames(struct worker_link *l, struct err *err)
{
    size_t len;
    const char *text;
    int rc = 0;

    while (rc == 0 && (text = frame_reader_next(l->reader, &len)) != NULL) {
        struct codec_doc *doc = NULL;
        rc = open_frame(text, len, MESSAGE_ID_order, &doc, err);
        if (rc == 0)
            rc = take_order(l, doc, err);
        codec_doc_close(&doc);
    }
    return rc;
}

/* ---- waiting --------------------------------------------------------------*/

static void
take_signals(struct worker_link *l)
{
    struct signalfd_siginfo info;

    while (read(l->signal_fd, &info, sizeof(info)) == sizeof(info)) {
        if (info.ssi_signo == SIGTERM)
            atomic_fetch_or(&l->orders, REPORT_STOP);
        else
            atomic_fetch_or(&l->orders, REPORT_ABANDON);
    }
}

/* A timeout sends a beat, and so does a wake. */
static void
serve_once(struct worker_link *l)
{
    struct pollfd p[3] = {
        {.fd = l->signal_fd, .events = POLLIN},
        {.fd = l->wake_fd, .events = POLLIN},
        {.fd = l->fd, .events = POLLIN},
    };
    struct err why;
    uint64_t n;

    if (l->out_len > 0)
        p[2].events |= POLLOUT;
    const int ready = poll(p, 3, BEAT_INTERVAL_MS);
    if (ready < 0)
        return;
    take_signals(l);
    const bool woken = read(l->wake_fd, &n, sizeof(n)) == sizeof(n);
    if (l->fd >= 0 && p[2].revents != 0) {
        err_clear(&why);
        int rc = pull_in(l, &why);
        /* What came before the end still counts. */
        struct err bad;
        err_clear(&bad);
        const int frames = rc == ERR_PROTO ? 0 : take_frames(l, &bad);
        if (frames != 0)
            fail(l, &bad);
        else if (rc == ERR_INTERRUPTED)
            hang_up(l);
        else if (rc != 0)
            fail(l, &why);
        else if (l->out_len > 0)
            push_out(l);
    }
    if (ready == 0 || woken || l->ping_token != 0 || l->beat_due)
        send_beat(l);
}

static void *
serve(void *ctx)
{
    struct worker_link *l = ctx;

    while (!atomic_load(&l->ending))
        serve_once(l);
    return NULL;
}

/* ---- the door -------------------------------------------------------------*/

int
worker_link_open(int fd, struct worker_link **out, struct err *err)
{
    struct worker_link *l = calloc(1, sizeof(*l));
    sigset_t mask;
    int rc = 0;

    *out = NULL;
    if (l == NULL)
        return err_set(err, ERR_NOMEM, "link: no memory");
    l->fd = fd;
    l->page_bytes = sysconf(_SC_PAGESIZE);
    pthread_mutex_init(&l->error_lock, NULL);
    sigemptyset(&mask);
    sigaddset(&mask, SIGTERM);
    sigaddset(&mask, SIGINT);
    /* An ignored signal would never reach the signalfd. */
    signal(SIGTERM, SIG_DFL);
    signal(SIGINT, SIG_DFL);
    signal(SIGPIPE, SIG_IGN);
    signal(SIGXFSZ, SIG_IGN); /* an error of write(2) like a full disk */
    pthread_sigmask(SIG_BLOCK, &mask, NULL);
    l->signal_fd = signalfd(-1, &mask, SFD_NONBLOCK | SFD_CLOEXEC);
    l->wake_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    l->reader = frame_reader_create(FRAME_MAX_BYTES);
    if (l->reader == NULL)
        rc = err_set(err, ERR_NOMEM, "link: no memory");
    else if (l->signal_fd < 0 || l->wake_fd < 0 ||
             fcntl(fd, F_SETFD, FD_CLOEXEC) < 0)
        rc = err_set_errno(err, ERR_IO, errno, "fd %d", fd);
    if (rc != 0) {
        worker_link_close(&l);
        return rc;
    }
    *out = l;
    return 0;
}

static int
read_start(struct worker_link *l, const char *text, size_t len,
           struct view_start *start, struct codec_doc **doc, struct err *err)
{
    int rc = open_frame(text, len, MESSAGE_ID_start, doc, err);

    if (rc == 0)
        rc = codec_read(*doc, 0, VIEW_ID_start, start, err);
    /* Orders may have come along with it. */
    return rc != 0 ? rc : take_frames(l, err);
}

int
worker_link_wait_start(struct worker_link *link, struct view_start *start,
                       struct codec_doc **doc, struct err *err)
{
    struct pollfd p[2] = {{.fd = link->signal_fd, .events = POLLIN},
                          {.fd = link->fd, .events = POLLIN}};
    size_t len;
    const char *text;

    *doc = NULL;
    for (;;) {
        if (poll(p, 2, -1) < 0 && errno != EINTR)
            return err_set_errno(err, ERR_IO, errno, "fd 3");
        take_signals(link);
        if (atomic_load(&link->orders) != 0)
            return err_set(err, ERR_INTERRUPTED, "ended before the start");
        if (p[1].revents == 0)
            continue;
        const int rc = pull_in(link, err);
        if (rc != 0 && rc != ERR_INTERRUPTED)
            return rc;
        text = frame_reader_next(link->reader, &len);
        if (text != NULL)
            return read_start(link, text, len, start, doc, err);
        if (rc != 0)
            return rc;
    }
}

int
worker_link_checkin(struct worker_link *link,
                    const struct view_checkin *checkin, struct err *err)
{
    size_t len;
    char *text = codec_write_one_way(MESSAGE_ID_checkin, checkin, &len);
    int errnum;

    send_take(link, text, len);
    errnum = pthread_create(&link->thread, NULL, serve, link);
    if (errnum != 0)
        return err_set_errno(err, ERR_INTERNAL, errnum, "link: thread");
    link->running = true;
    return 0;
}

unsigned
worker_link_orders(struct worker_link *link)
{
    unsigned orders = atomic_load_explicit(&link->orders, memory_order_relaxed);

    if ((orders & REPORT_CHECKPOINT) != 0)
        orders = atomic_fetch_and(&link->orders, ~(unsigned)REPORT_CHECKPOINT);
    return orders;
}

static void
wake(struct worker_link *l)
{
    const uint64_t one = 1;
    const ssize_t n = write(l->wake_fd, &one, sizeof(one));

    /* A full counter has woken it already. */
    assert(n == sizeof(one) || errno == EAGAIN);
}

void
worker_link_progress(struct worker_link *link, int64_t iteration,
                     int64_t events_bytes, bool news)
{
    atomic_store_explicit(&link->iteration, iteration, memory_order_relaxed);
    atomic_store_explicit(&link->events_bytes, events_bytes,
                          memory_order_relaxed);
    if (news && link->running)
        wake(link);
}

int
worker_link_error(struct worker_link *link, struct err *err)
{
    pthread_mutex_lock(&link->error_lock);
    const int code = link->error.code;
    if (code != 0)
        *err = link->error;
    pthread_mutex_unlock(&link->error_lock);
    return code;
}

void
worker_link_close(struct worker_link **link)
{
    struct worker_link *l = *link;

    *link = NULL;
    if (l == NULL)
        return;
    if (l->running) {
        atomic_store(&l->ending, true);
        wake(l);
        pthread_join(l->thread, NULL);
    }
    frame_reader_destroy(&l->reader);
    if (l->fd >= 0)
        close(l->fd);
    if (l->signal_fd >= 0)
        close(l->signal_fd);
    if (l->wake_fd >= 0)
        close(l->wake_fd);
    pthread_mutex_destroy(&l->error_lock);
    free(l);
}
