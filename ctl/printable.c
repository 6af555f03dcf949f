/* SPDX-License-Identifier: Apache-2.0 */
#include "ctl/printable.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

/* Bytes of the character that begins so; 1 for ASCII, 0: none begins so. */
static size_t
length_of(unsigned char c)
{
    if (c < 0x80)
        return 1;
    if (c >= 0xc2 && c <= 0xdf)
        return 2;
    if (c >= 0xe0 && c <= 0xef)
        return 3;
    return c >= 0xf0 && c <= 0xf4 ? 4 : 0;
}

/* No overlong form, no surrogate, none above U+10FFFF, no control. */
static bool
is_sound(const unsigned char *s, size_t n)
{
    static const uint32_t least[] = {0, 0, 0xa0, 0x800, 0x10000};
    uint32_t c = n == 1 ? s[0] : s[0] & (0x7fu >> n);

    for (size_t i = 1; i < n; i++)
        c = c << 6 | (s[i] & 0x3fu);
    if (n == 1)
        return (c >= 0x20 && c != 0x7f) || c == '\n' || c == '\t';
    return c >= least[n] && (c < 0xd800 || c > 0xdfff) && c <= 0x10ffff;
}

/* Each byte of something that is no character. */
static size_t
give_up(struct printable *p, char *out)
{
    const size_t n = p->n;

    memset(out, '?', n);
    p->n = 0;
    return n;
}

size_t
printable_filter(struct printable *p, const char *bytes, size_t n, char *out)
{
    size_t made = 0;

    for (size_t i = 0; i < n; i++) {
        const unsigned char c = (unsigned char)bytes[i];

        if (p->n > 0 && (c & 0xc0) != 0x80)
            made += give_up(p, out + made);
        if (p->n == 0)
            p->want = length_of(c);
        p->part[p->n++] = c;
        if (p->want == 0) {
            made += give_up(p, out + made);
        } else if (p->n == p->want) {
            if (is_sound(p->part, p->n)) {
                memcpy(out + made, p->part, p->n);
                made += p->n;
                p->n = 0;
            } else {
                made += give_up(p, out + made);
            }
        }
    }
    return made;
}

size_t
printable_finish(struct printable *p, char *out)
{
    return give_up(p, out);
}
