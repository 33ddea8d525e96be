-- One row per launch that did or corrected the work of a task: who made it, what it used, and the kind of the task.
-- `first` is who was chosen at the beginning, where somebody stronger might have taken over; null where nobody might.
WITH chosen AS (
    SELECT id FROM orchestrator_runs WHERE true /* filters */
), kinds AS (
    SELECT e.run_id, e.data->>'task' AS task, max(coalesce(e.data->>'kind', 'build')) AS kind
    FROM orchestrator_events e
    WHERE e.type = 'task.started' AND e.run_id IN (SELECT id FROM chosen)
    GROUP BY e.run_id, e.data->>'task'
), choices AS (
    SELECT e.run_id, e.data->>'task' AS task, min(e.seq) AS seq
    FROM orchestrator_events e
    WHERE e.type = 'agent.chosen' AND e.run_id IN (SELECT id FROM chosen)
    GROUP BY e.run_id, e.data->>'task'
)
SELECT s.run_id, s.task, s.seq, k.kind, s.agent, s.model, c.data->>'agent' AS first,
       CAST(s.output->>'duration' AS double precision) AS seconds,
       CAST(s.output->'usage'->>'input_tokens' AS bigint) + CAST(s.output->'usage'->>'output_tokens' AS bigint)
           AS tokens,
       CAST(s.output->'usage'->>'cost_usd' AS double precision) AS cost_usd
FROM orchestrator_steps s
JOIN kinds k ON k.run_id = s.run_id AND k.task = s.task
LEFT JOIN choices f ON f.run_id = s.run_id AND f.task = s.task
LEFT JOIN orchestrator_events c ON c.run_id = f.run_id AND c.seq = f.seq
WHERE s.phase IN ('execute', 'resolve') AND s.agent IS NOT NULL AND s.ended IS NOT NULL
ORDER BY s.run_id, s.seq;
