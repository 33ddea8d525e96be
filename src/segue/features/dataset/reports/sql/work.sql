-- One row per run: the milliseconds it was worked on, however many tasks at once. Time between sessions, after the
-- last sign of life of one that was killed, and while all tasks under way wait for a usage limit is left out.
WITH chosen AS (
    SELECT id FROM orchestrator_runs WHERE true /* filters */
), ticks AS NOT MATERIALIZED (
    SELECT e.run_id, e.seq, e.ts, e.type,
           CASE WHEN e.type = 'run.resumed' THEN CAST(e.data->>'last_seen' AS bigint) END AS last_seen
    FROM orchestrator_events e
    WHERE e.type <> 'agent.text' AND e.type <> 'agent.tool' AND e.type <> 'agent.output' AND e.type <> 'agent.raw'
      AND e.type <> 'agent.usage' AND e.type <> 'trace.span'
      AND e.type IN ('run.started', 'run.resumed', 'run.parked', 'run.ended', 'task.started', 'task.ended',
                     'task.blocked', 'task.merged', 'task.collided', 'step.started', 'step.ended', 'prompt',
                     'agent.ended', 'verdict', 'commit', 'plan.revised', 'fallback', 'search', 'diagnostic')
      AND NOT (e.type IN ('step.started', 'step.ended') AND coalesce(e.step, '') LIKE '%/end')
      AND NOT (e.type = 'step.started' AND coalesce(e.data->>'phase', '') = 'sleep')
), ends AS MATERIALIZED (
    SELECT r.id AS run_id,
           (SELECT t.seq FROM ticks t WHERE t.run_id = r.id ORDER BY t.seq LIMIT 1) AS first,
           (SELECT t.seq FROM ticks t WHERE t.run_id = r.id ORDER BY t.seq DESC LIMIT 1) AS last
    FROM chosen r
), outlines AS MATERIALIZED (
    -- The clock of a run never goes back.
    SELECT r.run_id, l.ts - f.ts AS ms,
           CASE WHEN EXISTS (SELECT 1 FROM orchestrator_events e WHERE e.type = 'run.resumed' AND e.run_id = r.run_id)
                  OR EXISTS (SELECT 1 FROM orchestrator_events e WHERE e.type = 'run.parked' AND e.run_id = r.run_id)
                  OR EXISTS (SELECT 1 FROM orchestrator_events e WHERE e.type = 'run.ended' AND e.run_id = r.run_id)
                     AND l.type <> 'run.ended' THEN 1 ELSE 0 END AS broken
    FROM ends r CROSS JOIN orchestrator_events f CROSS JOIN orchestrator_events l
    WHERE f.run_id = r.run_id AND f.seq = r.first AND l.run_id = r.run_id AND l.seq = r.last
), broken AS MATERIALIZED (
    -- Most runs have one session in which nobody waits; of the others every pause is looked at.
    SELECT run_id FROM outlines WHERE broken = 1
), laned AS MATERIALIZED (
    -- Where tasks with lanes were parked, others may have been worked on meanwhile.
    SELECT DISTINCT t.run_id FROM broken r CROSS JOIN ticks t
    WHERE t.run_id = r.run_id AND t.type = 'run.parked'
      AND EXISTS (SELECT 1 FROM orchestrator_events s WHERE s.run_id = r.run_id AND s.type = 'task.started'
                                                        AND coalesce(CAST(s.data->>'lane' AS integer), 0) > 0)
), parked AS (
    SELECT DISTINCT e.run_id, e.data->>'task' AS task, 'task/' || (e.data->>'task') || '/park/' AS folder
    FROM laned r CROSS JOIN orchestrator_events e
    WHERE e.run_id = r.run_id AND e.type = 'run.parked'
      AND e.type <> 'agent.text' AND e.type <> 'agent.tool' AND e.type <> 'agent.output' AND e.type <> 'agent.raw'
      AND e.type <> 'agent.usage' AND e.type <> 'trace.span'
), turns AS (
    -- Where a session begins, and where a task begins to be worked on, rests, or ends.
    SELECT e.run_id, e.seq, e.data->>'task' AS task,
           CASE WHEN e.type IN ('run.started', 'run.resumed') THEN 'none' WHEN e.type = 'task.started' THEN 'work'
                WHEN e.type = 'run.parked' THEN 'rest' ELSE 'end' END AS turn,
           CASE WHEN e.type IN ('run.started', 'run.resumed') THEN 1
                WHEN e.type = 'task.started' AND coalesce(CAST(e.data->>'lane' AS integer), 0) = 0 THEN 1
                ELSE 0 END AS alone
    FROM laned r JOIN orchestrator_events e ON e.run_id = r.run_id
    WHERE e.type IN ('run.started', 'run.resumed', 'task.started', 'run.parked', 'task.ended')
    UNION ALL
    SELECT e.run_id, e.seq, p.task, 'work', 0
    FROM parked p JOIN orchestrator_events e
      ON e.run_id = p.run_id AND e.type = 'step.ended' AND substr(e.step, 1, length(p.folder)) = p.folder
), epochs AS (
    SELECT run_id, seq, task, turn, sum(alone) OVER (PARTITION BY run_id ORDER BY seq) AS epoch FROM turns
), changes AS (
    SELECT run_id, seq, epoch, turn, lag(turn) OVER (PARTITION BY run_id, epoch, task ORDER BY seq) AS before FROM epochs
), crews AS (
    -- How many tasks are worked on, and how many rest, after each turn.
    SELECT run_id, seq,
           sum(CASE WHEN turn = 'work' THEN 1 ELSE 0 END - CASE WHEN before = 'work' THEN 1 ELSE 0 END) OVER epoch
               AS working,
           sum(CASE WHEN turn = 'rest' THEN 1 ELSE 0 END - CASE WHEN before = 'rest' THEN 1 ELSE 0 END) OVER epoch
               AS resting
    FROM changes
    WINDOW epoch AS (PARTITION BY run_id, epoch ORDER BY seq)
), states AS (
    -- Whether all rest, and whether somebody works, until the next turn.
    SELECT run_id, seq, CASE WHEN working = 0 AND resting > 0 THEN 1 ELSE 0 END AS resting,
           CASE WHEN working > 0 THEN 1 ELSE 0 END AS working
    FROM crews
), steps AS (
    -- The same as changes, which can be added up over the events in between.
    SELECT run_id, seq, resting - coalesce(lag(resting) OVER run, 0) AS resting,
           working - coalesce(lag(working) OVER run, 0) AS working
    FROM states
    WINDOW run AS (PARTITION BY run_id ORDER BY seq)
), sums AS (
    SELECT t.run_id, t.seq, t.ts, t.type, t.last_seen, sum(coalesce(s.resting, 0)) OVER run AS resting,
           sum(coalesce(s.working, 0)) OVER run AS working
    FROM broken r JOIN ticks t ON t.run_id = r.run_id LEFT JOIN steps s ON s.run_id = t.run_id AND s.seq = t.seq
    WINDOW run AS (PARTITION BY t.run_id ORDER BY t.seq)
), spans AS (
    SELECT run_id, ts, type, last_seen, lag(ts) OVER run AS before,
           lag(CASE WHEN type = 'run.ended' OR resting > 0 OR type = 'run.parked' AND working = 0 THEN 1 ELSE 0 END)
               OVER run AS stopped
    FROM sums
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
UNION ALL
SELECT run_id, ms FROM outlines WHERE broken = 0
ORDER BY run_id;
