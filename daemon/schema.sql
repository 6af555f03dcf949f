-- SPDX-License-Identifier: Apache-2.0
-- Schema version 4 of traind.db (store_schema.c brings older ones here). Times
-- are microseconds since the epoch. A float that may be non-finite has a flag
-- column beside it: 0 finite, 1 NaN (the value is NULL), 2 +inf, 3 -inf.
-- live = 0: on an abandoned line. iteration = updates + skips in every row of
-- every table.

CREATE TABLE job (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    uid INTEGER NOT NULL,
    user TEXT NOT NULL,
    name TEXT NOT NULL,
    spec TEXT NOT NULL,
    idempotency_key TEXT NOT NULL,
    origin TEXT NOT NULL,
    state TEXT NOT NULL,
    reason TEXT NOT NULL,
    intent TEXT NOT NULL,
    priority INTEGER NOT NULL,
    attempt INTEGER NOT NULL,
    device TEXT NOT NULL,
    dtype TEXT NOT NULL,
    submit_us INTEGER NOT NULL,
    start_us INTEGER NOT NULL,
    end_us INTEGER NOT NULL,
    iteration INTEGER NOT NULL,
    updates INTEGER NOT NULL,
    skips INTEGER NOT NULL,
    total_iterations INTEGER NOT NULL,
    iterations_per_epoch INTEGER NOT NULL,
    loss REAL,
    scale REAL,
    lr REAL,
    grad_norm REAL,
    validation_loss REAL,
    accuracy REAL,
    best_accuracy REAL,
    iterations_per_s REAL,
    eta_s REAL,
    checkpoint TEXT NOT NULL,
    checkpoint_iteration INTEGER NOT NULL,
    rollbacks INTEGER NOT NULL,
    policy_changed INTEGER NOT NULL,
    exit_code INTEGER NOT NULL,
    error TEXT NOT NULL,
    directory TEXT NOT NULL,
    resume_checkpoint INTEGER NOT NULL,
    lost_attempts INTEGER NOT NULL,
    top_k REAL,
    perplexity REAL,
    changes TEXT NOT NULL DEFAULT '[]', -- spec fragments merged since, in order
    skip_windows TEXT NOT NULL DEFAULT '[]', -- pairs: data position, how many
    start_scale REAL, -- loss scale of the next attempt; NULL: the checkpoint's
    guard_rollbacks INTEGER NOT NULL DEFAULT 0,
    difference TEXT NOT NULL DEFAULT '', -- against the spec as submitted
    verdict TEXT NOT NULL DEFAULT '', -- of the last incident diagnosed
    CHECK (iteration = updates + skips)
) STRICT;
CREATE INDEX job_state ON job (state, id);
CREATE INDEX job_uid ON job (uid, id);
CREATE UNIQUE INDEX job_key ON job (uid, idempotency_key)
    WHERE idempotency_key <> '';

CREATE TABLE attempt (
    job INTEGER NOT NULL REFERENCES job (id),
    attempt INTEGER NOT NULL,
    state TEXT NOT NULL,
    resumed_from TEXT NOT NULL,
    start_iteration INTEGER NOT NULL,
    end_iteration INTEGER NOT NULL,
    policy TEXT NOT NULL,
    policy_changed INTEGER NOT NULL,
    pid INTEGER NOT NULL,
    start_ticks INTEGER NOT NULL,
    boot_id TEXT NOT NULL,
    device TEXT NOT NULL,
    start_us INTEGER NOT NULL,
    end_us INTEGER NOT NULL,
    obituary TEXT NOT NULL,
    events_offset INTEGER NOT NULL, -- bytes of events.jsonl that are stored
    events_seq INTEGER NOT NULL,    -- last event that is stored
    cause TEXT NOT NULL DEFAULT '',  -- why it is no mere continuation
    change TEXT NOT NULL DEFAULT '', -- spec fragment that came with it
    difference TEXT NOT NULL DEFAULT '', -- policy against the attempt before
    PRIMARY KEY (job, attempt)
) STRICT, WITHOUT ROWID;

CREATE TABLE metric (
    id INTEGER PRIMARY KEY,
    job INTEGER NOT NULL,
    attempt INTEGER NOT NULL,
    iteration INTEGER NOT NULL,
    updates INTEGER NOT NULL,
    skips INTEGER NOT NULL,
    live INTEGER NOT NULL,
    skipped INTEGER NOT NULL,
    loss REAL,
    loss_flag INTEGER NOT NULL,
    grad_norm REAL,
    grad_norm_flag INTEGER NOT NULL,
    lr REAL,
    scale REAL,
    samples INTEGER NOT NULL,
    step_us INTEGER NOT NULL,
    t_us INTEGER NOT NULL,
    CHECK (iteration = updates + skips)
) STRICT;
CREATE INDEX metric_at ON metric (job, iteration);

-- Coarser levels of metric (store_level.h): a row stands for iterations first
-- to last of one attempt on one line. loss and grad_norm are means of what is
-- finite; where nothing is, the last value.
CREATE TABLE metric_level (
    id INTEGER PRIMARY KEY,
    job INTEGER NOT NULL,
    level INTEGER NOT NULL, -- 1: 16 iterations, 2: 256, ...
    attempt INTEGER NOT NULL,
    first INTEGER NOT NULL,
    last INTEGER NOT NULL,
    updates INTEGER NOT NULL, -- up to last
    skips INTEGER NOT NULL,
    live INTEGER NOT NULL,
    n INTEGER NOT NULL,
    n_skipped INTEGER NOT NULL,
    n_bad INTEGER NOT NULL,      -- losses that are not finite
    n_bad_norm INTEGER NOT NULL, -- gradient norms that are not
    loss REAL,
    loss_flag INTEGER NOT NULL,
    loss_min REAL, -- of what is finite; so below
    loss_max REAL,
    grad_norm REAL,
    grad_norm_flag INTEGER NOT NULL,
    grad_norm_min REAL,
    grad_norm_max REAL,
    lr REAL,
    scale REAL,
    scale_min REAL,
    scale_max REAL,
    samples INTEGER NOT NULL,
    step_us INTEGER NOT NULL,
    t_us INTEGER NOT NULL,
    CHECK (last = updates + skips)
) STRICT;
CREATE INDEX metric_level_at ON metric_level (job, level, first);

-- Up to which iteration old rows of a level (0: metric) are gone, of the live
-- line and of abandoned ones.
CREATE TABLE metric_gone (
    job INTEGER NOT NULL,
    level INTEGER NOT NULL,
    live INTEGER NOT NULL,
    abandoned INTEGER NOT NULL,
    PRIMARY KEY (job, level)
) STRICT, WITHOUT ROWID;

CREATE TABLE scale_event (
    id INTEGER PRIMARY KEY,
    job INTEGER NOT NULL,
    attempt INTEGER NOT NULL,
    seq INTEGER NOT NULL, -- of the event within its attempt
    iteration INTEGER NOT NULL,
    updates INTEGER NOT NULL,
    skips INTEGER NOT NULL,
    live INTEGER NOT NULL,
    cause TEXT NOT NULL, -- skip, growth, set
    before REAL NOT NULL,
    after REAL NOT NULL,
    growth_tracker INTEGER NOT NULL,
    samples TEXT NOT NULL, -- JSON list of sample ids; skips only
    t_us INTEGER NOT NULL,
    partial INTEGER NOT NULL DEFAULT 0, -- some optimizers stepped
    optimizers TEXT NOT NULL DEFAULT '', -- those that did not
    UNIQUE (job, attempt, seq),
    CHECK (iteration = updates + skips)
) STRICT;
CREATE INDEX scale_event_at ON scale_event (job, iteration);

CREATE TABLE incident (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    job INTEGER NOT NULL,
    attempt INTEGER NOT NULL,
    seq INTEGER NOT NULL,
    iteration INTEGER NOT NULL,
    updates INTEGER NOT NULL,
    skips INTEGER NOT NULL,
    live INTEGER NOT NULL,
    replayed INTEGER NOT NULL,
    located INTEGER NOT NULL,
    pass TEXT NOT NULL,
    layer TEXT NOT NULL,
    op TEXT NOT NULL,
    tensor TEXT NOT NULL,
    dtype TEXT NOT NULL,
    at TEXT NOT NULL, -- JSON list: logical index
    what TEXT NOT NULL, -- nan, +inf, -inf
    scale REAL NOT NULL,
    micro_batch INTEGER NOT NULL,
    sample INTEGER NOT NULL,
    verdict TEXT NOT NULL, -- '' until diagnosed
    t_us INTEGER NOT NULL,
    trigger TEXT NOT NULL DEFAULT 'skip', -- skip, loss, metric, weights
    sentence TEXT NOT NULL DEFAULT '',
    cure TEXT NOT NULL DEFAULT '', -- spec fragment
    fp32_finite TEXT NOT NULL DEFAULT '', -- yes, no, '' not asked; so the next
    bf16_finite TEXT NOT NULL DEFAULT '',
    alone_finite TEXT NOT NULL DEFAULT '',
    finite_scale REAL,
    regions TEXT NOT NULL DEFAULT '',
    has_fp32_value INTEGER NOT NULL DEFAULT 0,
    fp32_value REAL,
    fp32_value_flag INTEGER NOT NULL DEFAULT 1,
    samples TEXT NOT NULL DEFAULT '[]', -- JSON list: ids of those that cause it
    n_guilty INTEGER NOT NULL DEFAULT 0,
    data_position INTEGER NOT NULL DEFAULT -1,
    name TEXT NOT NULL DEFAULT '', -- directory where it is kept
    kept_bytes INTEGER NOT NULL DEFAULT 0,
    runs INTEGER NOT NULL DEFAULT 0,
    cost_us INTEGER NOT NULL DEFAULT 0,
    UNIQUE (job, attempt, seq),
    CHECK (iteration = updates + skips)
) STRICT;
CREATE INDEX incident_at ON incident (job, iteration);

-- Guards that fired.
CREATE TABLE guard (
    id INTEGER PRIMARY KEY,
    job INTEGER NOT NULL,
    attempt INTEGER NOT NULL,
    seq INTEGER NOT NULL,
    iteration INTEGER NOT NULL,
    updates INTEGER NOT NULL,
    skips INTEGER NOT NULL,
    live INTEGER NOT NULL,
    rule INTEGER NOT NULL,
    condition TEXT NOT NULL,
    text TEXT NOT NULL,
    value REAL,
    value_flag INTEGER NOT NULL,
    bound REAL,
    bound_flag INTEGER NOT NULL,
    action TEXT NOT NULL, -- continue, pause, fail, rollback
    change TEXT NOT NULL, -- spec fragment, or ''
    t_us INTEGER NOT NULL,
    UNIQUE (job, attempt, seq),
    CHECK (iteration = updates + skips)
) STRICT;
CREATE INDEX guard_at ON guard (job, iteration);

CREATE TABLE evaluation (
    id INTEGER PRIMARY KEY,
    job INTEGER NOT NULL,
    attempt INTEGER NOT NULL,
    seq INTEGER NOT NULL,
    iteration INTEGER NOT NULL,
    updates INTEGER NOT NULL,
    skips INTEGER NOT NULL,
    live INTEGER NOT NULL,
    loss REAL,
    loss_flag INTEGER NOT NULL,
    accuracy REAL,
    n INTEGER NOT NULL,
    incomplete INTEGER NOT NULL,
    best INTEGER NOT NULL,
    t_us INTEGER NOT NULL,
    top_k REAL,
    perplexity REAL,
    perplexity_flag INTEGER NOT NULL DEFAULT 1,
    ema INTEGER NOT NULL DEFAULT 0, -- of the averaged weights
    confusion TEXT NOT NULL DEFAULT '', -- JSON list: rows target
    UNIQUE (job, attempt, seq),
    CHECK (iteration = updates + skips)
) STRICT;
CREATE INDEX evaluation_at ON evaluation (job, iteration);

CREATE TABLE checkpoint (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    job INTEGER NOT NULL,
    name TEXT NOT NULL,
    attempt INTEGER NOT NULL,
    iteration INTEGER NOT NULL,
    updates INTEGER NOT NULL,
    skips INTEGER NOT NULL,
    live INTEGER NOT NULL,
    state TEXT NOT NULL, -- good, bad, pruned
    cause TEXT NOT NULL, -- periodic, demand, stop, end
    best INTEGER NOT NULL,
    metric REAL,
    bytes INTEGER NOT NULL,
    digest TEXT NOT NULL,
    t_us INTEGER NOT NULL,
    UNIQUE (job, name),
    CHECK (iteration = updates + skips)
) STRICT;
CREATE INDEX checkpoint_at ON checkpoint (job, iteration);

CREATE TABLE rollback (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    job INTEGER NOT NULL,
    uid INTEGER NOT NULL,
    checkpoint INTEGER REFERENCES checkpoint (id), -- NULL: the start
    from_iteration INTEGER NOT NULL,
    to_iteration INTEGER NOT NULL,
    cause TEXT NOT NULL,
    t_us INTEGER NOT NULL,
    attempt INTEGER NOT NULL DEFAULT 0, -- that was left
    change TEXT NOT NULL DEFAULT '', -- spec fragment that came with it
    difference TEXT NOT NULL DEFAULT '', -- the same as a sentence
    policy_changed INTEGER NOT NULL DEFAULT 0
) STRICT;
CREATE INDEX rollback_job ON rollback (job);

-- What happened, for people and for subscribers; seq never goes back.
CREATE TABLE event (
    seq INTEGER PRIMARY KEY AUTOINCREMENT,
    t_us INTEGER NOT NULL,
    job INTEGER NOT NULL,
    attempt INTEGER NOT NULL,
    uid INTEGER NOT NULL, -- who did it, -1 the daemon
    kind TEXT NOT NULL,
    text TEXT NOT NULL
) STRICT;
CREATE INDEX event_job ON event (job, seq);

-- Who may ask over HTTP without being known to the kernel. The secret itself
-- is nowhere.
CREATE TABLE token (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    uid INTEGER NOT NULL,
    user TEXT NOT NULL,
    name TEXT NOT NULL,
    hash TEXT NOT NULL UNIQUE, -- SHA-256, hexadecimal
    scopes INTEGER NOT NULL,   -- sum of 1 read, 2 submit, 4 admin, 8 metrics
    admin INTEGER NOT NULL,    -- an administrator made it
    created_us INTEGER NOT NULL,
    expires_us INTEGER NOT NULL, -- 0 = never
    revoked_us INTEGER NOT NULL, -- 0 = not
    last_used_us INTEGER NOT NULL
) STRICT;
