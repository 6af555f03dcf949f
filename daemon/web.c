/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/web.h"

#include <string.h>

const struct web_file *
web_find(const char *path)
{
    for (size_t i = 0; i < web_table_len; i++)
        if (strcmp(web_table[i].path, path) == 0)
            return &web_table[i];
    return NULL;
}
