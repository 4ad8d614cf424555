-- The memory of rowfall. One file per target: inside the embedded folder, or in the user's state
-- folder for targets that have none. No key is a fact of a process (pid, host, batch number).
-- into_table is the key of the target. load.owner is the process that runs the load (leases.py);
-- only one that is dead gives its load away.

CREATE TABLE load (
    id          TEXT PRIMARY KEY,
    fingerprint TEXT NOT NULL,              -- sources and target table: what a re-run is matched by
    source      TEXT NOT NULL,
    target      TEXT NOT NULL,
    into_table  TEXT NOT NULL,
    state       TEXT NOT NULL CHECK (state IN ('running', 'done', 'partial', 'failed', 'interrupted')),
    started     TEXT NOT NULL,
    request     TEXT NOT NULL,              -- JSON: sources, target and options, no secrets
    report      TEXT,                       -- JSON of the last run's report
    owner       TEXT NOT NULL
) STRICT;

CREATE INDEX load_by_fingerprint ON load (fingerprint, state);

-- Preparation that changes the target (create, drop): recorded before and after.
CREATE TABLE step (
    load_id TEXT NOT NULL REFERENCES load,
    name    TEXT NOT NULL,
    state   TEXT NOT NULL CHECK (state IN ('started', 'done')),
    PRIMARY KEY (load_id, name)
) STRICT;

CREATE TABLE attempt (
    id      TEXT PRIMARY KEY,
    load_id TEXT NOT NULL REFERENCES load,
    staging TEXT NOT NULL,                  -- table or file that receives the rows, '' for none
    into_table TEXT NOT NULL,               -- where it is published: the target, or a shadow of it
    state   TEXT NOT NULL CHECK (state IN ('started', 'loaded', 'published', 'failed', 'lost')),
    rows    INTEGER,
    error   TEXT
) STRICT;

CREATE INDEX attempt_by_load ON attempt (load_id, state);

CREATE TABLE split (
    id         TEXT NOT NULL,               -- see model.split_id
    load_id    TEXT NOT NULL REFERENCES load,
    uri        TEXT NOT NULL,
    state      TEXT NOT NULL CHECK (state IN ('pending', 'landed', 'failed')),
    attempt_id TEXT,
    error      TEXT,
    hint       TEXT,
    PRIMARY KEY (load_id, id)
) STRICT, WITHOUT ROWID;

CREATE INDEX split_by_attempt ON split (attempt_id) WHERE attempt_id IS NOT NULL;

-- What is loaded where, whichever load did it ("landed" is the word of the first version, kept for
-- ledgers that others still open; an attempt that is "loaded" is committed: staged and counted); the table's uuid tells a table from its successor.
CREATE TABLE landed (
    into_table TEXT NOT NULL,
    id         TEXT NOT NULL,
    attempt_id TEXT NOT NULL,
    PRIMARY KEY (into_table, id)
) STRICT, WITHOUT ROWID;

CREATE TABLE target_table (
    into_table TEXT PRIMARY KEY,
    uuid       TEXT NOT NULL
) STRICT;

-- A loaded attempt on its way into the target: one row per table and partition that gets parts.
-- highest_block and rows_before are what the table held in that partition before anything was
-- attached: the evidence after a crash in the middle.
CREATE TABLE move (
    attempt_id    TEXT NOT NULL REFERENCES attempt,
    database      TEXT NOT NULL,
    table_name    TEXT NOT NULL,
    staging       TEXT NOT NULL,
    partition_id  TEXT NOT NULL,
    rows          INTEGER NOT NULL,
    rows_before   INTEGER NOT NULL,
    highest_block INTEGER NOT NULL,
    state         TEXT NOT NULL CHECK (state IN ('pending', 'attached')),
    PRIMARY KEY (attempt_id, staging, partition_id)
) STRICT, WITHOUT ROWID;

-- ADDED since then: made in older ledgers when they are opened.

-- What the mark in a table's own folder may say, see Ledger.expected_marks: the attempt whose rows
-- the table got last (mark), and the one that is committed since (coming); '' without a mark.
CREATE TABLE IF NOT EXISTS data_mark (
    uuid   TEXT PRIMARY KEY,                -- of the table
    mark   TEXT NOT NULL,
    coming TEXT NOT NULL
) STRICT, WITHOUT ROWID;

-- When the files of a staged partition were changed last before their commit (ns), where they are
-- to be seen.
CREATE TABLE IF NOT EXISTS staged_files (
    attempt_id   TEXT NOT NULL REFERENCES attempt,
    staging      TEXT NOT NULL,
    partition_id TEXT NOT NULL,
    changed_at   INTEGER NOT NULL,
    PRIMARY KEY (attempt_id, staging, partition_id)
) STRICT, WITHOUT ROWID;

-- The plan of the last run of a load and what its attempts did, as JSON for rowfall explain.
CREATE TABLE IF NOT EXISTS explained (
    load_id  TEXT PRIMARY KEY REFERENCES load,
    document TEXT NOT NULL
) STRICT, WITHOUT ROWID;

-- What was loaded long ago by followed loads, in 20 bytes an object: the digits of the ids as bytes.
CREATE TABLE IF NOT EXISTS joined_into (
    number     INTEGER PRIMARY KEY,
    into_table TEXT NOT NULL,
    load_id    TEXT NOT NULL,               -- by which they are forgotten together
    UNIQUE (into_table, load_id)
) STRICT;

CREATE TABLE IF NOT EXISTS joined (
    number INTEGER NOT NULL REFERENCES joined_into,
    id     BLOB NOT NULL,
    day    INTEGER NOT NULL,                -- since 1970, when it came here
    PRIMARY KEY (number, id)
) STRICT, WITHOUT ROWID;

-- The parts of an attempt, by which its rows can be taken out again while they are not merged.
CREATE TABLE IF NOT EXISTS staged_part (
    attempt_id TEXT NOT NULL REFERENCES attempt,
    staging    TEXT NOT NULL,
    uuid       TEXT NOT NULL,
    PRIMARY KEY (attempt_id, uuid)
) STRICT, WITHOUT ROWID;

-- The versions of followed objects, for --on-change error: digests of the object's name, and ids.
CREATE TABLE IF NOT EXISTS seen_version (
    name     BLOB NOT NULL,
    split    BLOB NOT NULL,
    size     INTEGER NOT NULL,
    modified INTEGER,                       -- ms since 1970; NULL where nobody says so
    PRIMARY KEY (name, split)
) STRICT, WITHOUT ROWID;
