/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/store_ballast.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "daemon/store_private.h"

#define DISK_SHARE   16
#define LEAST_BYTES  (64 * 1024)
#define TRY_AGAIN_US 5000000

/* What the disk allows for; 0: leave it alone. */
static int64_t
choose_bytes(const struct store_ballast *b, int64_t max_bytes)
{
    char dir[STORE_BALLAST_PATH_MAX];
    struct statvfs fs;
    int64_t total, room, bytes;

    snprintf(dir, sizeof(dir), "%s", b->path);
    *strrchr(dir, '/') = '\0';
    if (statvfs(dir[0] == '\0' ? "/" : dir, &fs) != 0)
        return 0;
    total = (int64_t)(fs.f_blocks * fs.f_frsize);
    room = (int64_t)(fs.f_bavail * fs.f_frsize);
    bytes = total / DISK_SHARE < max_bytes ? total / DISK_SHARE : max_bytes;
    return bytes >= LEAST_BYTES && room > 2 * bytes ? bytes : 0;
}

/* Blocks, not a hole. Where the disk cannot promise them there is none. */
static void
make(struct store_ballast *b, int64_t bytes)
{
    int fd = open(b->path, O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);

    if (fd < 0)
        return;
    if (fallocate(fd, 0, 0, (off_t)bytes) == 0)
        b->bytes = bytes;
    else
        unlink(b->path);
    close(fd);
}

void
store_ballast_init(struct store_ballast *b, const char *database,
                   int64_t max_bytes)
{
    struct stat st;
    int n;

    memset(b, 0, sizeof(*b));
    n = snprintf(b->path, sizeof(b->path), "%s-ballast", database);
    if (max_bytes <= 0 || database[0] != '/' || n >= (int)sizeof(b->path)) {
        b->path[0] = '\0';
        return;
    }
    /* Of an earlier daemon: as good as a new one, even on a full disk. */
    if (lstat(b->path, &st) == 0 && S_ISREG(st.st_mode) && st.st_blocks > 0)
        b->bytes = st.st_size;
    else
        store_ballast_check(b, max_bytes);
}

bool
store_ballast_drop(struct store_ballast *b)
{
    if (b->bytes == 0 || unlink(b->path) != 0)
        return false;
    b->bytes = 0;
    b->next_try_us = store_now_us() + TRY_AGAIN_US;
    return true;
}

void
store_ballast_check(struct store_ballast *b, int64_t max_bytes)
{
    int64_t now = store_now_us(), bytes;

    if (b->path[0] == '\0' || b->bytes > 0 ||
        (now < b->next_try_us && b->next_try_us - now <= TRY_AGAIN_US))
        return;
    b->next_try_us = now + TRY_AGAIN_US;
    bytes = choose_bytes(b, max_bytes);
    if (bytes > 0)
        make(b, bytes);
}
