/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/store_private.h"

#include "daemon/schema_sql.h"
#include "daemon/store_level.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/vfs.h>

#define SCHEMA_VERSION        4
#define FIRST_WITH_LEVELS     4
#define SCHEMA_APPLICATION_ID 0x74726e64 /* "trnd" */

/* From each version to the next; columns end up where schema.sql has them. */
static const char *const upgrades[SCHEMA_VERSION] = {
    [1] = "ALTER TABLE job ADD COLUMN top_k REAL;"
          "ALTER TABLE job ADD COLUMN perplexity REAL;"
          "ALTER TABLE scale_event ADD COLUMN"
          " partial INTEGER NOT NULL DEFAULT 0;"
          "ALTER TABLE scale_event ADD COLUMN"
          " optimizers TEXT NOT NULL DEFAULT '';"
          "ALTER TABLE evaluation ADD COLUMN top_k REAL;"
          "ALTER TABLE evaluation ADD COLUMN perplexity REAL;"
          "ALTER TABLE evaluation ADD COLUMN"
          " perplexity_flag INTEGER NOT NULL DEFAULT 1;"
          "ALTER TABLE evaluation ADD COLUMN ema INTEGER NOT NULL DEFAULT 0;"
          "ALTER TABLE evaluation ADD COLUMN"
          " confusion TEXT NOT NULL DEFAULT '';",
    [2] = "ALTER TABLE job ADD COLUMN changes TEXT NOT NULL DEFAULT "
          "'[]';"
          "ALTER TABLE job ADD COLUMN skip_windows TEXT NOT NULL "
          "DEFAULT '[]';"
          "ALTER TABLE job ADD COLUMN start_scale REAL;"
          "ALTER TABLE job ADD COLUMN guard_rollbacks INTEGER NOT NULL "
          "DEFAULT 0;"
          "ALTER TABLE job ADD COLUMN difference TEXT NOT NULL DEFAULT "
          "'';"
          "ALTER TABLE job ADD COLUMN verdict TEXT NOT NULL DEFAULT '';"
          "ALTER TABLE attempt ADD COLUMN cause TEXT NOT NULL DEFAULT "
          "'';"
          "ALTER TABLE attempt ADD COLUMN change TEXT NOT NULL DEFAULT "
          "'';"
          "ALTER TABLE attempt ADD COLUMN difference TEXT NOT NULL "
          "DEFAULT '';"
          "ALTER TABLE incident ADD COLUMN trigger TEXT NOT NULL "
          "DEFAULT 'skip';"
          "ALTER TABLE incident ADD COLUMN sentence TEXT NOT NULL "
          "DEFAULT '';"
          "ALTER TABLE incident ADD COLUMN cure TEXT NOT NULL DEFAULT "
          "'';"
          "ALTER TABLE incident ADD COLUMN fp32_finite TEXT NOT NULL "
          "DEFAULT '';"
          "ALTER TABLE incident ADD COLUMN bf16_finite TEXT NOT NULL "
          "DEFAULT '';"
          "ALTER TABLE incident ADD COLUMN alone_finite TEXT NOT NULL "
          "DEFAULT '';"
          "ALTER TABLE incident ADD COLUMN finite_scale REAL;"
          "ALTER TABLE incident ADD COLUMN regions TEXT NOT NULL "
          "DEFAULT '';"
          "ALTER TABLE incident ADD COLUMN has_fp32_value INTEGER NOT "
          "NULL DEFAULT 0;"
          "ALTER TABLE incident ADD COLUMN fp32_value REAL;"
          "ALTER TABLE incident ADD COLUMN fp32_value_flag INTEGER NOT "
          "NULL DEFAULT 1;"
          "ALTER TABLE incident ADD COLUMN samples TEXT NOT NULL "
          "DEFAULT '[]';"
          "ALTER TABLE incident ADD COLUMN n_guilty INTEGER NOT NULL "
          "DEFAULT 0;"
          "ALTER TABLE incident ADD COLUMN data_position INTEGER NOT "
          "NULL DEFAULT -1;"
          "ALTER TABLE incident ADD COLUMN name TEXT NOT NULL DEFAULT "
          "'';"
          "ALTER TABLE incident ADD COLUMN kept_bytes INTEGER NOT NULL "
          "DEFAULT 0;"
          "ALTER TABLE incident ADD COLUMN runs INTEGER NOT NULL "
          "DEFAULT 0;"
          "ALTER TABLE incident ADD COLUMN cost_us INTEGER NOT NULL "
          "DEFAULT 0;"
          "CREATE TABLE guard ( "
          "id INTEGER PRIMARY KEY, "
          "job INTEGER NOT NULL, "
          "attempt INTEGER NOT NULL, "
          "seq INTEGER NOT NULL, "
          "iteration INTEGER NOT NULL, "
          "updates INTEGER NOT NULL, "
          "skips INTEGER NOT NULL, "
          "live INTEGER NOT NULL, "
          "rule INTEGER NOT NULL, "
          "condition TEXT NOT NULL, "
          "text TEXT NOT NULL, "
          "value REAL, "
          "value_flag INTEGER NOT NULL, "
          "bound REAL, "
          "bound_flag INTEGER NOT NULL, "
          "action TEXT NOT NULL, "
          "change TEXT NOT NULL, "
          "t_us INTEGER NOT NULL, "
          "UNIQUE (job, attempt, seq), "
          "CHECK (iteration = updates + skips) "
          ") STRICT;"
          "CREATE INDEX guard_at ON guard (job, iteration);"
          "CREATE TABLE rollback_new ( "
          "id INTEGER PRIMARY KEY AUTOINCREMENT, "
          "job INTEGER NOT NULL, "
          "uid INTEGER NOT NULL, "
          "checkpoint INTEGER REFERENCES checkpoint (id), "
          "from_iteration INTEGER NOT NULL, "
          "to_iteration INTEGER NOT NULL, "
          "cause TEXT NOT NULL, "
          "t_us INTEGER NOT NULL, "
          "attempt INTEGER NOT NULL DEFAULT 0, "
          "change TEXT NOT NULL DEFAULT '', "
          "difference TEXT NOT NULL DEFAULT '', "
          "policy_changed INTEGER NOT NULL DEFAULT 0 "
          ") STRICT;"
          "INSERT INTO rollback_new (id, job, uid, checkpoint, "
          "from_iteration, to_iteration, cause, t_us) SELECT id, job, "
          "uid, checkpoint, from_iteration, to_iteration, cause, t_us "
          "FROM rollback;"
          "DROP TABLE rollback;"
          "ALTER TABLE rollback_new RENAME TO rollback;"
          "CREATE INDEX rollback_job ON rollback (job);",
    [3] = "CREATE TABLE metric_level ( "
          "id INTEGER PRIMARY KEY, "
          "job INTEGER NOT NULL, "
          "level INTEGER NOT NULL, "
          "attempt INTEGER NOT NULL, "
          "first INTEGER NOT NULL, "
          "last INTEGER NOT NULL, "
          "updates INTEGER NOT NULL, "
          "skips INTEGER NOT NULL, "
          "live INTEGER NOT NULL, "
          "n INTEGER NOT NULL, "
          "n_skipped INTEGER NOT NULL, "
          "n_bad INTEGER NOT NULL, "
          "n_bad_norm INTEGER NOT NULL, "
          "loss REAL, "
          "loss_flag INTEGER NOT NULL, "
          "loss_min REAL, "
          "loss_max REAL, "
          "grad_norm REAL, "
          "grad_norm_flag INTEGER NOT NULL, "
          "grad_norm_min REAL, "
          "grad_norm_max REAL, "
          "lr REAL, "
          "scale REAL, "
          "scale_min REAL, "
          "scale_max REAL, "
          "samples INTEGER NOT NULL, "
          "step_us INTEGER NOT NULL, "
          "t_us INTEGER NOT NULL, "
          "CHECK (last = updates + skips) "
          ") STRICT; "
          "CREATE INDEX metric_level_at ON metric_level (job, level, first); "
          "CREATE TABLE metric_gone ( "
          "job INTEGER NOT NULL, "
          "level INTEGER NOT NULL, "
          "live INTEGER NOT NULL, "
          "abandoned INTEGER NOT NULL, "
          "PRIMARY KEY (job, level) "
          ") STRICT, WITHOUT ROWID; "
          "CREATE TABLE token ( "
          "id INTEGER PRIMARY KEY AUTOINCREMENT, "
          "uid INTEGER NOT NULL, "
          "user TEXT NOT NULL, "
          "name TEXT NOT NULL, "
          "hash TEXT NOT NULL UNIQUE, "
          "scopes INTEGER NOT NULL, "
          "admin INTEGER NOT NULL, "
          "created_us INTEGER NOT NULL, "
          "expires_us INTEGER NOT NULL, "
          "revoked_us INTEGER NOT NULL, "
          "last_used_us INTEGER NOT NULL "
          ") STRICT;",
};

static const struct {
    uint32_t magic;
    const char *name;
    bool refused; /* file locks or shared memory cannot be relied on */
} odd_fs[] = {
    {0x6969, "NFS", true},       {0xFF534D42, "CIFS", true},
    {0xFE534D42, "SMB2", true},  {0x0BD00BD0, "Lustre", true},
    {0x65735546, "FUSE", false}, {0x01021997, "9p", false},
};

static bool
in_memory(const char *path)
{
    return strcmp(path, ":memory:") == 0 || strncmp(path, "file:", 5) == 0;
}

int
store_schema_check_fs(const struct store_options *options, char *warning,
                      size_t size, struct err *err)
{
    char dir[4096];
    struct statfs fs;
    uint32_t magic = (uint32_t)options->fs_magic_override;
    char *slash;

    warning[0] = '\0';
    if (in_memory(options->path))
        return 0;
    snprintf(dir, sizeof(dir), "%s", options->path);
    slash = strrchr(dir, '/');
    if (slash == NULL)
        strcpy(dir, ".");
    else
        slash[slash == dir] = '\0';
    if (magic == 0) {
        if (statfs(dir, &fs) != 0)
            return 0; /* opening will say what is wrong */
        magic = (uint32_t)fs.f_type;
    }
    for (size_t i = 0; i < sizeof(odd_fs) / sizeof(odd_fs[0]); i++) {
        if (odd_fs[i].magic != magic)
            continue;
        if (odd_fs[i].refused && !options->allow_network_fs)
            return err_set(err, ERR_CONFIG,
                           "%s: the state directory is on %s, where a "
                           "database gets corrupted; use a local disk, or set "
                           "allow_network_fs = yes under [db]",
                           dir, odd_fs[i].name);
        snprintf(warning, size, "%s: the state directory is on %s", dir,
                 odd_fs[i].name);
    }
    return 0;
}

int
store_schema_open(const char *path, bool read_only, struct store_conn *conn,
                  struct err *err)
{
    int flags = read_only ? SQLITE_OPEN_READONLY
                          : SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE;
    int rc;

    /* A shared in-memory database needs the same flags on both sides. */
    if (in_memory(path))
        flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE;
    rc = sqlite3_open_v2(path, &conn->db,
                         flags | SQLITE_OPEN_URI | SQLITE_OPEN_NOMUTEX, NULL);
    if (rc != SQLITE_OK)
        return err_set(err, ERR_IO, "%s: %s", path,
                       conn->db != NULL ? sqlite3_errmsg(conn->db)
                                        : sqlite3_errstr(rc));
    sqlite3_busy_timeout(conn->db, 5000);
    if (in_memory(path))
        sqlite3_exec(conn->db, "PRAGMA read_uncommitted = ON", NULL, NULL,
                     NULL);
    return store_sql_exec(conn,
                          "PRAGMA foreign_keys = ON;"
                          "PRAGMA trusted_schema = OFF;"
                          "PRAGMA cell_size_check = ON;",
                          err);
}

static int64_t
pragma_number(struct store_conn *conn, const char *sql, int *rc)
{
    sqlite3_stmt *stmt = NULL;
    int64_t value = 0;

    *rc = sqlite3_prepare_v2(conn->db, sql, -1, &stmt, NULL);
    if (*rc == SQLITE_OK) {
        *rc = sqlite3_step(stmt);
        if (*rc == SQLITE_ROW) {
            value = sqlite3_column_int64(stmt, 0);
            *rc = SQLITE_OK;
        }
    }
    sqlite3_finalize(stmt);
    return value;
}

/* All of it or nothing: whoever dies here leaves the version it found. */
static int
bring_up(struct store_conn *conn, int64_t version, struct err *err)
{
    char tail[160];
    int rc;

    snprintf(tail, sizeof(tail),
             "PRAGMA application_id = %d; PRAGMA user_version = %d; COMMIT;",
             SCHEMA_APPLICATION_ID, SCHEMA_VERSION);
    rc = store_sql_exec(conn, "BEGIN EXCLUSIVE", err);
    if (rc == 0 && version == 0)
        rc = store_sql_exec(conn, schema_sql, err);
    for (int64_t v = version; v > 0 && v < SCHEMA_VERSION && rc == 0; v++)
        rc = store_sql_exec(conn, upgrades[v], err);
    if (rc == 0 && version > 0 && version < FIRST_WITH_LEVELS)
        rc = store_level_build_all(conn, err);
    if (rc == 0)
        rc = store_sql_exec(conn, tail, err);
    if (rc != 0)
        sqlite3_exec(conn->db, "ROLLBACK", NULL, NULL, NULL);
    return rc;
}

int
store_schema_migrate(struct store_conn *conn, const char *path, struct err *err)
{
    int64_t version, application, tables;
    int rc;

    version = pragma_number(conn, "PRAGMA user_version", &rc);
    if (rc != SQLITE_OK)
        return err_set(err, ERR_IO,
                       "%s: %s; it is left as it is: move it away or restore "
                       "a backup",
                       path, sqlite3_errmsg(conn->db));
    application = pragma_number(conn, "PRAGMA application_id", &rc);
    tables = pragma_number(conn, "SELECT count(*) FROM sqlite_schema", &rc);
    if (rc != SQLITE_OK)
        return err_set(err, ERR_IO, "%s: %s", path, sqlite3_errmsg(conn->db));
    if (tables > 0 && application != SCHEMA_APPLICATION_ID)
        return err_set(err, ERR_CONFIG, "%s: not a database of traind", path);
    if (version > SCHEMA_VERSION)
        return err_set(err, ERR_CONFIG,
                       "%s: schema version %lld is newer than this traind's "
                       "%d; start the newer traind",
                       path, (long long)version, SCHEMA_VERSION);
    rc = store_sql_exec(conn,
                        "PRAGMA journal_mode = WAL;"
                        "PRAGMA synchronous = FULL;"
                        "PRAGMA journal_size_limit = 67108864;",
                        err);
    if (rc != 0 || version == SCHEMA_VERSION)
        return rc;
    return bring_up(conn, version, err);
}
