-- What a fleet keeps beside the journal, in a schema of its own. Every statement may be repeated.
-- Instants are milliseconds since the epoch.

CREATE SCHEMA IF NOT EXISTS segue_fleet;

CREATE TABLE IF NOT EXISTS segue_fleet.versions (
    part text PRIMARY KEY,
    version text NOT NULL,
    applied bigint NOT NULL
);

CREATE TABLE IF NOT EXISTS segue_fleet.workers (
    id text PRIMARY KEY,
    host text NOT NULL,
    pid integer NOT NULL,
    version text NOT NULL,
    tags text NOT NULL,
    repos text NOT NULL,
    seats integer NOT NULL,
    runs text NOT NULL DEFAULT '',
    state text NOT NULL,
    started bigint NOT NULL,
    seen bigint NOT NULL
);

-- `work/RUN`: what a run has made so far.
CREATE TABLE IF NOT EXISTS segue_fleet.bundles (
    name text PRIMARY KEY,
    data bytea NOT NULL,
    head text NOT NULL DEFAULT '',
    digest text NOT NULL DEFAULT '',
    updated bigint NOT NULL
);

-- The machine that has driven a run last: its clone is as far as the run, also where the bundle is not.
-- Until `held` the run is kept for that machine, whose worker is being started again.
CREATE TABLE IF NOT EXISTS segue_fleet.places (
    run_id text PRIMARY KEY,
    place text NOT NULL,
    since bigint NOT NULL,
    held bigint NOT NULL DEFAULT 0
);

CREATE TABLE IF NOT EXISTS segue_fleet.failures (
    run_id text NOT NULL,
    worker text NOT NULL,
    at bigint NOT NULL,
    said text NOT NULL
);

CREATE INDEX IF NOT EXISTS failures_run ON segue_fleet.failures (run_id);

CREATE INDEX IF NOT EXISTS orchestrator_runs_open ON orchestrator_runs (state)
    WHERE state IN ('queued', 'running', 'parked');
