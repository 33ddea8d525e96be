-- One row per run: the milliseconds it was worked on, however many tasks at once. Time between sessions, after the
-- last sign of life of one that was killed, and while all tasks under way wait for a usage limit is left out.
WITH chosen AS (
    SELECT id FROM orchestrator_runs WHERE true /* filters */
), ticks AS (
    -- An epoch begins where nothing else is under way: with a session, and with a task that has no lane.
    SELECT e.run_id, e.seq, e.ts, e.type, e.step, e.data->>'task' AS task,
           CASE WHEN e.type = 'run.resumed' THEN CAST(e.data->>'last_seen' AS bigint) END AS last_seen,
           sum(CASE WHEN e.type IN ('run.started', 'run.resumed') THEN 1
                    WHEN e.type = 'task.started' AND coalesce(CAST(e.data->>'lane' AS integer), 0) = 0 THEN 1
                    ELSE 0 END) OVER (PARTITION BY e.run_id ORDER BY e.seq) AS epoch
    FROM chosen r JOIN orchestrator_events e ON e.run_id = r.id
    WHERE e.type <> 'agent.text' AND e.type <> 'agent.tool' AND e.type <> 'agent.output' AND e.type <> 'agent.raw'
      AND e.type <> 'agent.usage' AND e.type <> 'trace.span'
      AND e.type IN ('run.started', 'run.resumed', 'run.parked', 'run.ended', 'task.started', 'task.ended',
                     'task.blocked', 'task.merged', 'task.collided', 'step.started', 'step.ended', 'prompt',
                     'agent.ended', 'verdict', 'commit', 'plan.revised', 'fallback', 'search', 'diagnostic')
      AND NOT (e.type IN ('step.started', 'step.ended') AND coalesce(e.step, '') LIKE '%/end')
      AND NOT (e.type = 'step.started' AND coalesce(e.data->>'phase', '') = 'sleep')
), parked AS (
    SELECT DISTINCT run_id, task, 'task/' || task || '/park/' AS folder FROM ticks WHERE type = 'run.parked'
), turns AS (
    -- Where a task begins to be worked on, rests, or ends.
    SELECT run_id, seq, epoch, task,
           CASE type WHEN 'task.started' THEN 'work' WHEN 'run.parked' THEN 'rest' ELSE 'end' END AS turn
    FROM ticks WHERE type IN ('task.started', 'run.parked', 'task.ended')
    UNION ALL
    SELECT t.run_id, t.seq, t.epoch, p.task, 'work'
    FROM ticks t JOIN parked p ON p.run_id = t.run_id AND substr(t.step, 1, length(p.folder)) = p.folder
    WHERE t.type = 'step.ended'
), changes AS (
    SELECT run_id, seq, turn, lag(turn) OVER (PARTITION BY run_id, epoch, task ORDER BY seq) AS before FROM turns
), crews AS (
    SELECT t.run_id, t.seq, t.ts, t.type, t.last_seen,
           sum(coalesce(CASE WHEN c.turn = 'work' THEN 1 ELSE 0 END - CASE WHEN c.before = 'work' THEN 1 ELSE 0 END, 0))
               OVER epoch AS working,
           sum(coalesce(CASE WHEN c.turn = 'rest' THEN 1 ELSE 0 END - CASE WHEN c.before = 'rest' THEN 1 ELSE 0 END, 0))
               OVER epoch AS resting
    FROM ticks t LEFT JOIN changes c ON c.run_id = t.run_id AND c.seq = t.seq
    WINDOW epoch AS (PARTITION BY t.run_id, t.epoch ORDER BY t.seq)
), spans AS (
    SELECT run_id, ts, type, last_seen, lag(ts) OVER run AS before,
           lag(CASE WHEN type = 'run.ended' THEN 1 WHEN working > 0 THEN 0 WHEN type = 'run.parked' OR resting > 0 THEN 1
                    ELSE 0 END) OVER run AS stopped
    FROM crews
    WINDOW run AS (PARTITION BY run_id ORDER BY seq)
), worked AS (
    SELECT run_id,
           CASE WHEN before IS NULL OR stopped = 1 OR type = 'run.started' THEN 0
                WHEN type = 'run.resumed' AND last_seen IS NULL THEN 0
                WHEN type = 'run.resumed' AND last_seen < ts THEN last_seen - before
                ELSE ts - before END AS ms
    FROM spans
)
SELECT run_id, sum(CASE WHEN ms > 0 THEN ms ELSE 0 END) AS work_ms
FROM worked
GROUP BY run_id
ORDER BY run_id;
