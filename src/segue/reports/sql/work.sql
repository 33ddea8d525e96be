-- One row per run: the milliseconds it was worked on. Time between sessions, after the last sign of life of one
-- that was killed, and while waiting for a usage limit is left out.
WITH chosen AS (
    SELECT id FROM orchestrator_runs WHERE true /* filters */
), ticks AS (
    SELECT e.run_id, e.ts, e.type, lag(e.ts) OVER run AS before, lag(e.type) OVER run AS last,
           CASE WHEN e.type = 'run.resumed' THEN CAST(e.data->>'last_seen' AS bigint) END AS last_seen
    FROM chosen r JOIN orchestrator_events e ON e.run_id = r.id
    WHERE e.type <> 'agent.text' AND e.type <> 'agent.tool' AND e.type <> 'agent.output' AND e.type <> 'agent.raw'
      AND e.type <> 'agent.usage' AND e.type <> 'trace.span'
      AND e.type IN ('run.started', 'run.resumed', 'run.parked', 'run.ended', 'task.started', 'task.ended',
                     'step.started', 'step.ended', 'prompt', 'agent.ended', 'verdict', 'commit', 'plan.revised',
                     'fallback', 'search', 'diagnostic')
      AND NOT (e.type IN ('step.started', 'step.ended') AND coalesce(e.step, '') LIKE '%/end')
      AND NOT (e.type = 'step.started' AND coalesce(e.data->>'phase', '') = 'sleep')
    WINDOW run AS (PARTITION BY e.run_id ORDER BY e.seq)
), spans AS (
    SELECT run_id,
           CASE WHEN before IS NULL OR last IN ('run.parked', 'run.ended') OR type = 'run.started' THEN 0
                WHEN type = 'run.resumed' AND last_seen IS NULL THEN 0
                WHEN type = 'run.resumed' AND last_seen < ts THEN last_seen - before
                ELSE ts - before END AS ms
    FROM ticks
)
SELECT run_id, sum(CASE WHEN ms > 0 THEN ms ELSE 0 END) AS work_ms
FROM spans
GROUP BY run_id
ORDER BY run_id;
