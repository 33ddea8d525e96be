-- What people ask for most, as views; which part of an app a step builds; how far a buffer was replayed.
-- {number …} is a JSON number or null, whatever an agent wrote there; {instant …} is a date for people.

ALTER TABLE orchestrator_steps ADD COLUMN build_phase text;

-- The last entry of a buffer file that was written while the database was away (its name, and a number).
ALTER TABLE orchestrator_runs ADD COLUMN replayed text;

-- Indexes for some types of events only: what agents say by the thousand costs no more than before.
CREATE INDEX orchestrator_events_facts ON orchestrator_events (type, run_id, seq)
WHERE type = 'error' OR type = 'verdict' OR type = 'check' OR type = 'search' OR type = 'diagnostic'
   OR type = 'plan.revised';

CREATE INDEX orchestrator_events_tools ON orchestrator_events (run_id, seq) WHERE type = 'agent.tool';

DROP VIEW orchestrator_step_summaries;

CREATE VIEW orchestrator_step_summaries AS
SELECT s.run_id, s.seq, s.key, s.gen, s.task, s.phase, s.build_phase, s.attempt, s.agent, s.model, s.state,
       s.output->'verdict'->>'result' AS verdict, s.output->'verdict'->>'action' AS action,
       s.output->'verdict'->>'reason' AS reason,
       (s.ended - s.started) / 1000.0 AS seconds,
       s.tries, s.started, s.ended, {instant s.started} AS started_at, {instant s.ended} AS ended_at,
       CASE WHEN s.superseded IS NULL THEN 1 ELSE 0 END AS is_current
FROM orchestrator_steps s;

CREATE VIEW orchestrator_errors AS
SELECT e.run_id, e.seq, e.ts, {instant e.ts} AS at, e.step,
       e.data->>'task' AS task, e.data->>'phase' AS phase, e.data->>'build_phase' AS build_phase,
       e.data->>'kind' AS kind, e.data->>'failure' AS failure,
       e.data->>'message' AS message, e.data->>'signature' AS signature,
       {number e.data exit_code} AS exit_code, e.data->>'stderr_tail' AS stderr_tail,
       e.data->'commands_run' AS commands_run
FROM orchestrator_events e
WHERE e.type = 'error';

CREATE VIEW orchestrator_tool_events AS
SELECT e.run_id, e.seq, e.ts, {instant e.ts} AS at, e.step,
       e.data->>'name' AS name, e.data->>'id' AS id, e.data->>'state' AS state, e.data->>'status' AS status,
       e.data->'input' AS input, e.data->>'result' AS result
FROM orchestrator_events e
WHERE e.type = 'agent.tool';

CREATE VIEW orchestrator_verdicts AS
SELECT e.run_id, e.seq, e.ts, {instant e.ts} AS at, e.step, e.data->>'task' AS task,
       e.data->>'result' AS result, e.data->>'action' AS action, e.data->>'reason' AS reason,
       e.data->'criteria' AS criteria, e.data->'checks' AS checks
FROM orchestrator_events e
WHERE e.type = 'verdict';

-- An agent tells of a command when it starts and when it has ended: the last word counts.
CREATE VIEW orchestrator_commands AS
SELECT c.run_id, c.seq, c.ts, {instant c.ts} AS at, c.step, 'agent' AS origin, c.command, c.status, c.exit_code,
       CASE WHEN c.told > 1 THEN (c.ts - c.first_ts) / 1000.0 END AS seconds
FROM (
    SELECT e.run_id, e.seq, e.ts, e.step, e.data->'input'->>'command' AS command, e.data->>'status' AS status,
           coalesce({number e.data result exit_code}, {number e.data result exitCode}) AS exit_code,
           count(*) OVER same_call AS told, min(e.ts) OVER same_call AS first_ts,
           max(e.seq) OVER same_call AS last_seq
    FROM orchestrator_events e
    WHERE e.type = 'agent.tool' AND e.data->>'name' = 'Bash'
    WINDOW same_call AS (
        PARTITION BY e.run_id, e.step, coalesce(nullif(e.data->>'id', ''), CAST(e.seq AS text))
    )
) c
WHERE c.seq = c.last_seq
UNION ALL
SELECT e.run_id, e.seq, e.ts, {instant e.ts} AS at, e.step, e.type AS origin,
       e.data->>'command' AS command,
       CASE WHEN CAST(e.data->>'allowed' AS text) IN ('false', '0') THEN 'refused' END AS status,
       {number e.data exit_code} AS exit_code,
       coalesce({number e.data seconds}, {number e.data duration}) AS seconds
FROM orchestrator_events e
WHERE e.type = 'diagnostic' OR e.type = 'check';

ALTER VIEW orchestrator_step_summaries SET (security_invoker = true);

ALTER VIEW orchestrator_errors SET (security_invoker = true);

ALTER VIEW orchestrator_tool_events SET (security_invoker = true);

ALTER VIEW orchestrator_verdicts SET (security_invoker = true);

ALTER VIEW orchestrator_commands SET (security_invoker = true);
