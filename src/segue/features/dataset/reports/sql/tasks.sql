-- One row per task of a run that was begun: its build phase, its failures, and how it ended: done, skipped, replaced
-- by a new plan, or none of these (it needs a human, or a person accepted it). The last event about a task counts.
-- `level` is how strong the proof is of a task that is done; null in runs of older versions.
-- What a failure is, the view segue_failed_attempts says.
WITH chosen AS (
    SELECT id FROM orchestrator_runs WHERE true /* filters */
), told AS (
    SELECT run_id, seq, type, data FROM orchestrator_events WHERE type = 'task.started'
    UNION ALL
    SELECT run_id, seq, type, data FROM orchestrator_events WHERE type = 'task.ended'
    UNION ALL
    SELECT run_id, seq, type, data FROM orchestrator_events WHERE type = 'task.marked' AND data->>'by' IS NOT NULL
), numbered AS (
    SELECT e.run_id, e.data->>'task' AS task, e.type, e.data,
           row_number() OVER (PARTITION BY e.run_id, e.data->>'task' ORDER BY e.seq DESC) AS age
    FROM chosen r JOIN told e ON e.run_id = r.id
), news AS (
    SELECT run_id, task, type, CAST(data->>'done' AS text) IN ('1', 'true') AS is_done,
           coalesce(CAST(data->>'skipped' AS text), '') IN ('1', 'true') AS is_skipped,
           coalesce(CAST(data->>'replanned' AS text), '') IN ('1', 'true') AS is_replaced,
           data->'proof'->>'level' AS level
    FROM numbered
    WHERE age = 1
), steps AS MATERIALIZED (
    SELECT s.run_id, s.task, max(s.build_phase) AS build_phase
    FROM orchestrator_steps s
    WHERE s.run_id IN (SELECT id FROM chosen) AND s.task IS NOT NULL
    GROUP BY s.run_id, s.task
), failed AS MATERIALIZED (
    SELECT f.run_id, f.task, count(*) AS failures
    FROM segue_failed_attempts f
    WHERE f.run_id IN (SELECT id FROM chosen)
    GROUP BY f.run_id, f.task
)
SELECT n.run_id, n.task, s.build_phase, coalesce(f.failures, 0) AS failures,
       CASE WHEN n.type = 'task.ended' AND n.is_done AND NOT n.is_skipped THEN 1 ELSE 0 END AS done,
       CASE WHEN n.type <> 'task.started' AND n.is_skipped THEN 1 ELSE 0 END AS skipped,
       CASE WHEN n.type = 'task.ended' AND n.is_replaced THEN 1 ELSE 0 END AS replaced,
       CASE WHEN n.type = 'task.marked' AND NOT n.is_skipped THEN 1 ELSE 0 END AS accepted,
       CASE WHEN n.type <> 'task.started' THEN 1 ELSE 0 END AS ended,
       CASE WHEN n.is_skipped OR NOT n.is_done THEN NULL ELSE n.level END AS level
FROM news n LEFT JOIN steps s ON s.run_id = n.run_id AND s.task = n.task
LEFT JOIN failed f ON f.run_id = n.run_id AND f.task = n.task
ORDER BY n.run_id, n.task;
