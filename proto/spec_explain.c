/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "proto/spec.h"
#include "proto/spec_keys.h"
#include "proto/spec_words.h"

static const char *const layer_docs[] = {
#define LAYER(id, name, doc) doc,
#include "proto/layers.def"
#undef LAYER
#define PRESET(id, name, doc) doc,
#include "proto/presets.def"
#undef PRESET
};

/* The path without what is between [ and ]: "model[2].relu" -> "model[]". */
static bool
drop_indices(const char *path, char *out, size_t size)
{
    size_t n = 0;
    bool inside = false;

    for (; *path != '\0'; path++) {
        if (*path == ']')
            inside = false;
        if (inside)
            continue;
        if (n + 1 >= size)
            return false;
        out[n++] = *path;
        inside = *path == '[';
    }
    out[n] = '\0';
    return true;
}

/* path is section, or ends in ".section" where the section is a layer's or,
 * without "model[]", of what stands beside a layer's kind. */
static bool
is_in_section(const char *path, const char *section)
{
    bool beside = strncmp(section, "model[].", 8) == 0;
    size_t n = strlen(path), k;

    if (strcmp(path, section) == 0)
        return true;
    if (strncmp(path, "optimizer[].", 12) == 0) /* one of several */
        return strncmp(section, "optimizer.", 10) == 0 &&
               strcmp(path + 12, section + 10) == 0;
    if (strncmp(path, "guard[]", 7) == 0) /* the list without an object */
        return strncmp(section, "guard.rules[]", 13) == 0 &&
               strcmp(path + 7, section + 13) == 0;
    if (strncmp(path, "model", 5) != 0)
        return false;
    if (strcmp(section, "model[]") == 0) /* a layer inside a container */
        return n > 2 && strcmp(path + n - 2, "[]") == 0;
    section += beside ? 8 : 0;
    k = strlen(section);
    return k > 0 && n > k && path[n - k - 1] == '.' &&
           (beside || strchr(section, '.') == NULL) &&
           strcmp(path + n - k, section) == 0;
}

const char *
spec_explain_key(const char *path)
{
    char section[256], *dot;
    const char *key;

    if (!drop_indices(path, section, sizeof(section)))
        return NULL;
    dot = strrchr(section, '.');
    key = dot != NULL ? dot + 1 : section;
    /* "amp.fp32_regions[]" is an element of the list: explain the list. */
    if (strlen(key) > 2 && strcmp(key + strlen(key) - 2, "[]") == 0)
        section[strlen(section) - 2] = '\0';
    for (int i = 0; i < spec_words_layer.n; i++)
        if (strcmp(spec_words_layer.list[i].name, key) == 0 &&
            (dot == NULL || strncmp(section, "model", 5) == 0))
            return layer_docs[i];
    if (dot != NULL)
        *dot = '\0';
    for (int s = 0; s < spec_keys_n_sections; s++) {
        if (!is_in_section(dot != NULL ? section : "",
                           spec_keys_sections[s].path))
            continue;
        for (int i = 0; i < spec_keys_n; i++)
            if (spec_keys_table[i].object == spec_keys_sections[s].object &&
                strcmp(spec_keys_table[i].name, key) == 0)
                return spec_keys_table[i].explain;
    }
    return NULL;
}
