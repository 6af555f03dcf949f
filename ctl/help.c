/* SPDX-License-Identifier: Apache-2.0 */
#include "ctl/help.h"

#include <string.h>

#include "ctl/cmd.h"

#define DOC_COLUMN  30
#define WRAP_COLUMN 78

bool
help_is_hidden(const struct cmd *cmd)
{
    return cmd->name[0] == '_';
}

/* Words of text from `column` on, wrapped to `indent`. */
static void
put_wrapped(FILE *f, const char *text, int column, int indent)
{
    while (*text != '\0') {
        int len = (int)strcspn(text, " ");
        if (column > indent && column + 1 + len > WRAP_COLUMN) {
            fprintf(f, "\n%*s", indent, "");
            column = indent;
        } else if (column > indent) {
            putc(' ', f);
            column++;
        }
        fprintf(f, "%.*s", len, text);
        column += len;
        text += len;
        text += strspn(text, " ");
    }
    putc('\n', f);
}

static void
put_entry(FILE *f, const char *left, const char *doc)
{
    int len = (int)strlen(left);

    fprintf(f, "  %s", left);
    if (len + 4 > DOC_COLUMN)
        fprintf(f, "\n%*s", DOC_COLUMN, "");
    else
        fprintf(f, "%*s", DOC_COLUMN - 2 - len, "");
    put_wrapped(f, doc, DOC_COLUMN, DOC_COLUMN);
}

static void
put_options(FILE *f, const struct args_option *o)
{
    char left[128];

    for (; o != NULL && o->name != NULL; o++) {
        char letter[8] = "";
        if (o->letter != 0)
            snprintf(letter, sizeof(letter), "-%c, ", o->letter);
        snprintf(left, sizeof(left), "%s--%s%s%s", letter, o->name,
                 o->value != NULL ? " " : "", o->value != NULL ? o->value : "");
        put_entry(f, left, o->doc);
    }
}

void
help_put_program(FILE *f)
{
    char left[128];

    fputs("usage: trainctl [OPTION]... VERB [OPTION]... [ARGUMENT]...\n\n"
          "Queue training jobs with traind and look after them.\n\nVerbs:\n",
          f);
    for (int i = 0; cmd_table[i] != NULL; i++) {
        const struct cmd *cmd = cmd_table[i];
        if (help_is_hidden(cmd))
            continue;
        snprintf(left, sizeof(left), "%s %s", cmd->name, cmd->synopsis);
        put_entry(f, left, cmd->doc);
    }
    fputs("\nOptions of every verb:\n", f);
    put_options(f, cmd_globals);
    fputs(
        "\nA JOB is a number, @ (your last), name:NAME, or a list and ranges "
        "of numbers\nlike 12,15-18. \"trainctl help VERB\" says more; so does "
        "trainctl(1).\n",
        f);
}

void
help_put_verb(FILE *f, const struct cmd *cmd)
{
    fprintf(f, "usage: trainctl %s%s%s%s\n\n", cmd->name,
            cmd->options != NULL ? " [OPTION]..." : "",
            cmd->synopsis[0] != '\0' ? " " : "", cmd->synopsis);
    fprintf(f, "%c%s.\n", cmd->doc[0] - ('a' <= cmd->doc[0] ? 'a' - 'A' : 0),
            cmd->doc + 1);
    if (cmd->detail != NULL) {
        putc('\n', f);
        put_wrapped(f, cmd->detail, 0, 0);
    }
    if (cmd->options != NULL) {
        fputs("\nOptions:\n", f);
        put_options(f, cmd->options);
    }
    fputs("\nOptions of every verb:\n", f);
    put_options(f, cmd_globals);
}

/* ---- completion ----------------------------------------------------------*/

static void
offer_options(FILE *f, const struct args_option *o, const char *word)
{
    for (; o != NULL && o->name != NULL; o++)
        if (strncmp(o->name, word + 2, strlen(word + 2)) == 0)
            fprintf(f, "--%s\n", o->name);
}

static void
offer_verbs(FILE *f, const char *word)
{
    for (int i = 0; cmd_table[i] != NULL; i++)
        if (!help_is_hidden(cmd_table[i]) &&
            strncmp(cmd_table[i]->name, word, strlen(word)) == 0)
            fprintf(f, "%s\n", cmd_table[i]->name);
}

void
help_put_completions(FILE *f, int n, const char *const *words)
{
    const struct cmd *cmd = NULL;
    const char *word = n > 0 ? words[n - 1] : "";

    for (int i = 0; i < n - 1 && cmd == NULL; i++)
        cmd = cmd_find(words[i]);
    if (strncmp(word, "--", 2) == 0) {
        if (cmd != NULL)
            offer_options(f, cmd->options, word);
        offer_options(f, cmd_globals, word);
    } else if (cmd == NULL || cmd == &cmd_help) {
        offer_verbs(f, word);
    }
}
