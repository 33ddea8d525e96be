-- The journal, which is also the dataset. Written in Postgres' words; SQLite's few differences are translated.
-- Instants are milliseconds since the epoch.

CREATE TABLE orchestrator_runs (
    id text PRIMARY KEY,
    source_key text NOT NULL,
    spec jsonb NOT NULL,
    state text NOT NULL,
    note text NOT NULL DEFAULT '',
    wake bigint,
    owner text,
    lease bigint NOT NULL DEFAULT 0,
    claimed bigint,
    created bigint NOT NULL,
    updated bigint NOT NULL
);

CREATE INDEX orchestrator_runs_created ON orchestrator_runs (created);

CREATE INDEX orchestrator_runs_source ON orchestrator_runs (source_key, created);

-- `seq` is the number of the event that says the step began: it orders steps and leads to the log.
-- `superseded` is set by a redo: the row stays for the dataset, a later generation takes its place.
CREATE TABLE orchestrator_steps (
    run_id text NOT NULL,
    key text NOT NULL,
    gen integer NOT NULL,
    seq bigint NOT NULL,
    task text,
    phase text,
    attempt integer NOT NULL,
    agent text,
    model text,
    state text NOT NULL,
    token text NOT NULL,
    input jsonb NOT NULL,
    output jsonb NOT NULL,
    started bigint NOT NULL,
    ended bigint,
    tries integer NOT NULL,
    owner text NOT NULL,
    superseded bigint,
    PRIMARY KEY (run_id, key, gen)
);

CREATE TABLE orchestrator_events (
    run_id text NOT NULL,
    seq bigint NOT NULL,
    ts bigint NOT NULL,
    step text,
    type text NOT NULL,
    data jsonb NOT NULL,
    PRIMARY KEY (run_id, seq)
);

CREATE TABLE orchestrator_signals (
    run_id text NOT NULL,
    id text NOT NULL,
    n bigint NOT NULL,
    topic text NOT NULL,
    payload jsonb NOT NULL,
    sent bigint NOT NULL,
    consumed bigint,
    consumed_by text,
    PRIMARY KEY (run_id, id)
);

CREATE TABLE orchestrator_slots (
    backend text NOT NULL,
    n integer NOT NULL,
    owner text NOT NULL,
    lease bigint NOT NULL,
    run_id text NOT NULL,
    PRIMARY KEY (backend, n)
);

CREATE TABLE orchestrator_prompts (
    digest text PRIMARY KEY,
    text text NOT NULL,
    created bigint NOT NULL
);

CREATE VIEW orchestrator_run_summaries AS
SELECT r.id, r.source_key, r.state, r.note,
       r.spec->>'agent' AS agent, r.spec->>'flow' AS flow, r.spec->>'repo' AS repo,
       count(s.key) AS steps,
       count(CASE WHEN s.state = 'done' THEN 1 END) AS steps_done,
       count(CASE WHEN s.state = 'failed' THEN 1 END) AS steps_failed,
       count(CASE WHEN s.state = 'started' THEN 1 END) AS steps_open,
       count(DISTINCT s.task) AS tasks,
       sum(s.tries - 1) AS interruptions,
       sum(s.ended - s.started) / 1000.0 AS seconds_in_steps,
       (r.updated - r.created) / 1000.0 AS seconds,
       r.created, r.updated
FROM orchestrator_runs r LEFT JOIN orchestrator_steps s ON s.run_id = r.id
GROUP BY r.id, r.source_key, r.state, r.note, r.spec, r.created, r.updated;

CREATE VIEW orchestrator_step_summaries AS
SELECT s.run_id, s.seq, s.key, s.gen, s.task, s.phase, s.attempt, s.agent, s.model, s.state,
       s.output->'verdict'->>'result' AS verdict, s.output->'verdict'->>'action' AS action,
       s.output->'verdict'->>'reason' AS reason,
       (s.ended - s.started) / 1000.0 AS seconds,
       s.tries, s.started, s.ended,
       CASE WHEN s.superseded IS NULL THEN 1 ELSE 0 END AS is_current
FROM orchestrator_steps s;

-- Supabase serves every table of `public` to the world unless row level security is on; the owner is exempt.
ALTER TABLE orchestrator_runs ENABLE ROW LEVEL SECURITY;

ALTER TABLE orchestrator_steps ENABLE ROW LEVEL SECURITY;

ALTER TABLE orchestrator_events ENABLE ROW LEVEL SECURITY;

ALTER TABLE orchestrator_signals ENABLE ROW LEVEL SECURITY;

ALTER TABLE orchestrator_slots ENABLE ROW LEVEL SECURITY;

ALTER TABLE orchestrator_prompts ENABLE ROW LEVEL SECURITY;

ALTER TABLE orchestrator_migrations ENABLE ROW LEVEL SECURITY;

ALTER VIEW orchestrator_run_summaries SET (security_invoker = true);

ALTER VIEW orchestrator_step_summaries SET (security_invoker = true);
