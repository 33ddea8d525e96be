-- One definition of a failed attempt: reports, figures, flat tables and documented queries all use this view.
-- An attempt fails if its agent fails, or checks, hooks or a judge object to its work. It does not if that says nothing
-- about the work: usage limits, outages, a stop, a judge without an answer, changed tests that the task asks for, and
-- independent tests that were found to be wrong.
CREATE VIEW segue_failed_attempts AS
SELECT s.run_id, s.seq, s.key AS step, s.gen, s.task, s.phase, s.build_phase, s.attempt, s.agent, s.model,
       s.output->'failure'->>'kind' AS failure,
       coalesce(s.output->'failure'->>'message', s.output->'verdict'->>'reason',
                (SELECT max(e.data->>'reason') FROM orchestrator_events e
                 WHERE e.type = 'verdict' AND e.run_id = s.run_id AND e.step = s.key)) AS reason,
       {instant s.started} AS started_at, {instant s.ended} AS ended_at
FROM orchestrator_steps s
WHERE s.task IS NOT NULL AND s.state = 'failed'
  AND (s.phase IN ('check', 'hooks')
       OR s.phase IN ('plan', 'execute', 'address', 'resolve') AND s.output->'verdict'->>'result' IS NOT NULL
       OR s.phase = 'verify' AND s.output->'verdict'->>'result' IS NOT NULL AND s.output->'failure'->>'kind' IS NULL)
  AND coalesce(s.output->'failure'->>'kind', '') NOT IN
      ('usage_limit', 'rate_limit', 'outage', 'auth', 'interrupted', 'not_started', 'lost')
  AND NOT (s.phase = 'check' AND EXISTS (
      SELECT 1 FROM orchestrator_steps c
      WHERE c.run_id = s.run_id AND c.task = s.task AND c.seq > s.seq
        AND (c.phase = 'contest' AND c.state = 'done' OR c.phase = 'dispute' AND c.state = 'failed')
        AND NOT EXISTS (SELECT 1 FROM orchestrator_steps n
                        WHERE n.run_id = s.run_id AND n.task = s.task AND n.seq > s.seq AND n.seq < c.seq
                          AND n.phase IN ('check', 'resolve', 'end'))));

ALTER VIEW segue_failed_attempts SET (security_invoker = true);

DROP VIEW segue_first_attempts;

-- The first attempt lasts until the first verdict of a judge, or without one until the first checks.
CREATE VIEW segue_first_attempts AS
SELECT t.run_id, t.task, t.build_phase,
       t.first IS NOT NULL AND (t.fixed IS NULL OR t.fixed > t.first)
       AND NOT EXISTS (SELECT 1 FROM segue_failed_attempts f
                       WHERE f.run_id = t.run_id AND f.task = t.task AND f.seq <= t.first
                         AND f.phase IN ('execute', 'check', 'hooks', 'verify')) AS passed
FROM (
    SELECT s.run_id, s.task, max(s.build_phase) AS build_phase,
           coalesce(min(CASE WHEN s.phase = 'verify' AND s.output->'failure'->>'kind' IS NULL THEN s.seq END),
                    min(CASE WHEN s.phase = 'check' THEN s.seq END)) AS first,
           min(CASE WHEN s.phase = 'resolve' THEN s.seq END) AS fixed
    FROM orchestrator_steps s
    WHERE s.task IS NOT NULL AND s.state <> 'started'
      AND (s.phase IN ('check', 'resolve', 'verify')
           OR s.phase = 'execute' AND s.state = 'failed' AND coalesce(s.output->'failure'->>'kind', '') NOT IN
              ('usage_limit', 'rate_limit', 'outage', 'auth', 'interrupted', 'not_started', 'lost'))
    GROUP BY s.run_id, s.task
) t
WHERE t.first IS NOT NULL
   OR EXISTS (SELECT 1 FROM segue_failed_attempts f WHERE f.run_id = t.run_id AND f.task = t.task);

ALTER VIEW segue_first_attempts SET (security_invoker = true);

DROP VIEW segue_tasks;

CREATE VIEW segue_tasks AS
SELECT t.run_id, t.task, b.data->>'title' AS title, coalesce(b.data->>'kind', 'build') AS kind,
       (SELECT max(s.build_phase) FROM orchestrator_steps s WHERE s.run_id = t.run_id AND s.task = t.task)
           AS build_phase,
       CASE WHEN m.seq > coalesce(e.seq, 0) AND m.seq > t.last_start THEN
                CASE WHEN coalesce({flag m.data skipped}, false) THEN 'skipped'
                     WHEN {flag m.data done} THEN 'done' ELSE 'pending' END
            WHEN e.seq IS NULL OR e.seq < t.last_start THEN 'open'
            WHEN coalesce({flag e.data skipped}, false) THEN 'skipped'
            WHEN {flag e.data done} THEN 'done'
            WHEN coalesce({flag e.data replanned}, false) THEN 'replanned'
            ELSE 'needs_human' END AS state,
       e.data->>'reason' AS reason,
       CASE WHEN m.seq > coalesce(e.seq, 0) AND m.seq > t.last_start THEN
                CASE WHEN {flag m.data done} AND NOT coalesce({flag m.data skipped}, false) THEN
                    coalesce(CASE WHEN e.seq > t.last_start THEN e.data->'proof'->>'level' END, 'changed') END
            WHEN e.seq > t.last_start AND {flag e.data done} AND NOT coalesce({flag e.data skipped}, false)
            THEN e.data->'proof'->>'level' END AS proof_level,
       e.data->'proof'->'reasons' AS proof_reasons,
       CASE WHEN m.seq > coalesce(e.seq, 0) AND m.seq > t.last_start THEN m.data->>'by' END AS decided_by,
       (SELECT v.data->>'result' FROM orchestrator_events v
        WHERE v.type = 'verdict' AND v.run_id = t.run_id AND v.data->>'task' = t.task
          AND (v.step LIKE '%/verify/%' OR v.step LIKE '%/verify')
        ORDER BY v.seq LIMIT 1) AS first_verdict,
       (SELECT count(*) FROM segue_attempts a WHERE a.run_id = t.run_id AND a.task = t.task) AS attempts,
       (SELECT count(*) FROM segue_failed_attempts a WHERE a.run_id = t.run_id AND a.task = t.task) AS failed_attempts,
       (SELECT sum(a.cost_usd) FROM segue_attempts a WHERE a.run_id = t.run_id AND a.task = t.task) AS cost_usd,
       e.data->>'commit' AS commit_id, e.data->>'branch' AS branch,
       coalesce({integer e.data remaining}, 0) AS findings_open,
       CAST(e.ts - f.ts AS double precision) / 1000 AS seconds,
       {instant f.ts} AS started_at, {instant e.ts} AS ended_at
FROM (
    SELECT s.run_id, s.data->>'task' AS task, min(s.seq) AS first_start, max(s.seq) AS last_start
    FROM orchestrator_events s WHERE s.type = 'task.started' GROUP BY s.run_id, s.data->>'task'
) t
JOIN orchestrator_events f ON f.run_id = t.run_id AND f.seq = t.first_start
JOIN orchestrator_events b ON b.run_id = t.run_id AND b.seq = t.last_start
LEFT JOIN orchestrator_events e ON e.run_id = t.run_id AND e.seq = (
    SELECT max(x.seq) FROM orchestrator_events x
    WHERE x.type = 'task.ended' AND x.run_id = t.run_id AND x.data->>'task' = t.task)
LEFT JOIN orchestrator_events m ON m.run_id = t.run_id AND m.seq = (
    SELECT max(x.seq) FROM orchestrator_events x
    WHERE x.type = 'task.marked' AND x.run_id = t.run_id AND x.data->>'task' = t.task
      AND x.data->>'by' IS NOT NULL);

ALTER VIEW segue_tasks SET (security_invoker = true);

-- Verdicts of judges and of checks; what Segue concludes from a launch is in segue_verdicts.
DROP VIEW orchestrator_verdicts;

CREATE VIEW orchestrator_verdicts AS
SELECT e.run_id, e.seq, e.ts, {instant e.ts} AS at, e.step, e.data->>'task' AS task,
       e.data->>'result' AS result, e.data->>'action' AS action, e.data->>'reason' AS reason,
       e.data->'criteria' AS criteria, e.data->'checks' AS checks, e.data AS parsed_result
FROM orchestrator_events e
WHERE e.type = 'verdict' AND NOT EXISTS (
    SELECT 1 FROM orchestrator_steps s
    WHERE s.run_id = e.run_id AND s.key = e.step
      AND s.phase IN ('plan', 'execute', 'resolve', 'address', 'search', 'independent', 'outline', 'replan', 'merge'));

ALTER VIEW orchestrator_verdicts SET (security_invoker = true);
