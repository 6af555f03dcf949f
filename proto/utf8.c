/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/utf8.h"

#include <assert.h>

static bool
is_tail(unsigned char c)
{
    return (c & 0xc0) == 0x80;
}

/* Table 3-7 of the Unicode standard: only the second byte has special bounds.
 */
size_t
utf8_length(const char *s, size_t n)
{
    const unsigned char *u = (const unsigned char *)s;

    if (n == 0)
        return 0;
    if (u[0] < 0x80)
        return 1;
    if (u[0] < 0xc2 || u[0] > 0xf4)
        return 0;
    if (u[0] < 0xe0)
        return n >= 2 && is_tail(u[1]) ? 2 : 0;
    if (u[0] < 0xf0) {
        if (n < 3 || !is_tail(u[1]) || !is_tail(u[2]))
            return 0;
        if (u[0] == 0xe0 && u[1] < 0xa0)
            return 0;
        if (u[0] == 0xed && u[1] > 0x9f)
            return 0;
        return 3;
    }
    if (n < 4 || !is_tail(u[1]) || !is_tail(u[2]) || !is_tail(u[3]))
        return 0;
    if (u[0] == 0xf0 && u[1] < 0x90)
        return 0;
    if (u[0] == 0xf4 && u[1] > 0x8f)
        return 0;
    return 4;
}

bool
utf8_valid(const char *s, size_t n)
{
    while (n > 0) {
        size_t k = utf8_length(s, n);

        if (k == 0)
            return false;
        s += k;
        n -= k;
    }
    return true;
}

size_t
utf8_cut(const char *s, size_t n)
{
    /* Only bytes before n are looked at: s may end there. */
    for (size_t back = 1; back <= 3 && back <= n; back++) {
        unsigned char c = (unsigned char)s[n - back];
        size_t want = c >= 0xf0 ? 4 : c >= 0xe0 ? 3 : c >= 0xc0 ? 2 : 1;

        if (!is_tail(c))
            return want > back ? n - back : n;
    }
    return n;
}

size_t
utf8_encode(uint32_t c, char out[4])
{
    assert(c <= 0x10ffff && (c < 0xd800 || c > 0xdfff));
    if (c < 0x80) {
        out[0] = (char)c;
        return 1;
    }
    if (c < 0x800) {
        out[0] = (char)(0xc0 | c >> 6);
        out[1] = (char)(0x80 | (c & 0x3f));
        return 2;
    }
    if (c < 0x10000) {
        out[0] = (char)(0xe0 | c >> 12);
        out[1] = (char)(0x80 | (c >> 6 & 0x3f));
        out[2] = (char)(0x80 | (c & 0x3f));
        return 3;
    }
    out[0] = (char)(0xf0 | c >> 18);
    out[1] = (char)(0x80 | (c >> 12 & 0x3f));
    out[2] = (char)(0x80 | (c >> 6 & 0x3f));
    out[3] = (char)(0x80 | (c & 0x3f));
    return 4;
}

bool
utf8_has_control(const char *s, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        unsigned char c = (unsigned char)s[i];

        if (c < 0x20 || c == 0x7f)
            return true;
        if (c == 0xc2 && i + 1 < n && (unsigned char)s[i + 1] < 0xa0)
            return true;
    }
    return false;
}
