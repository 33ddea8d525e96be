-- The journal, which is also the dataset: its tables and their indexes; the views are in views.sql.
-- Written in Postgres' words; SQLite's few differences are translated. Instants are milliseconds since the epoch.

-- `replayed` is the last entry of a buffer file that was written while the database was away (its name, and a number).
CREATE TABLE orchestrator_runs (
    id text PRIMARY KEY,
    source_key text NOT NULL,
    kind text NOT NULL,
    spec jsonb NOT NULL,
    state text NOT NULL,
    note text NOT NULL DEFAULT '',
    wake bigint,
    owner text,
    lease bigint NOT NULL DEFAULT 0,
    claimed bigint,
    created bigint NOT NULL,
    updated bigint NOT NULL,
    replayed text
);

-- `seq` is the number of the event that says the step began: it orders steps and leads to the log.
-- `superseded` is set by a redo: the row stays for the dataset, a later generation takes its place.
CREATE TABLE orchestrator_steps (
    run_id text NOT NULL,
    key text NOT NULL,
    gen integer NOT NULL,
    seq bigint NOT NULL,
    task text,
    phase text,
    build_phase text,
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

CREATE INDEX orchestrator_runs_created ON orchestrator_runs (created);

CREATE INDEX orchestrator_runs_source ON orchestrator_runs (source_key, created);

CREATE INDEX orchestrator_events_calls ON orchestrator_events (run_id, step, (data->>'name'), seq)
WHERE type = 'agent.tool' AND coalesce(data->>'state', '') <> 'started';

-- What agents say by the thousand is left out; a query uses the index when it repeats these conditions.
CREATE INDEX orchestrator_events_view ON orchestrator_events (run_id, seq)
WHERE type <> 'agent.text' AND type <> 'agent.tool' AND type <> 'agent.output' AND type <> 'agent.raw'
  AND type <> 'agent.usage' AND type <> 'trace.span';

-- When a call of a tool began, for the event that says it has ended.
CREATE INDEX orchestrator_events_begun ON orchestrator_events (run_id, step, seq)
WHERE type = 'agent.tool' AND data->>'state' = 'started';

-- What reports and views ask of a million events, answered from indexes.
CREATE INDEX orchestrator_events_facts ON orchestrator_events (type, run_id, seq)
WHERE type = 'error' OR type = 'verdict' OR type = 'check' OR type = 'search' OR type = 'diagnostic'
   OR type = 'plan.revised' OR type = 'patch' OR type = 'prompt' OR type = 'task.started'
   OR type = 'task.ended' OR type = 'task.marked' OR type = 'run.resumed' OR type = 'run.parked'
   OR type = 'run.ended';

-- Where each step began, was given its prompt, and what its agent reported at the end.
CREATE INDEX orchestrator_events_launches ON orchestrator_events (run_id, step, seq, type)
WHERE type = 'step.started' OR type = 'prompt' OR type = 'agent.ended';

CREATE INDEX orchestrator_steps_task ON orchestrator_steps (run_id, task, seq, phase, state, build_phase);
