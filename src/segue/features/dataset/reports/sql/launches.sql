-- One row per step that launched an agent (it has a prompt) or reported its use. A step that is done again counts
-- again; a launch that was adopted counts once, with its last report. What an agent does not report is null.
WITH chosen AS (
    SELECT id FROM orchestrator_runs WHERE true /* filters */
), entries AS NOT MATERIALIZED (
    SELECT e.run_id, e.seq, e.step, e.type
    FROM orchestrator_events e
    WHERE e.type = 'step.started' OR e.type = 'prompt' OR e.type = 'agent.ended'
), steps AS MATERIALIZED (
    SELECT e.run_id, coalesce(e.step, '') AS step, max(CASE WHEN e.type = 'prompt' THEN 1 ELSE 0 END) AS launched,
           max(CASE WHEN e.type = 'agent.ended' THEN e.seq END) AS report,
           CASE WHEN count(CASE WHEN e.type = 'step.started' THEN 1 END) = 1
                 AND min(e.seq) = min(CASE WHEN e.type = 'step.started' THEN e.seq END) THEN 1 ELSE 0 END AS once
    FROM entries e
    WHERE e.run_id IN (SELECT id FROM chosen)
    GROUP BY e.run_id, e.step
), again AS MATERIALIZED (
    SELECT DISTINCT run_id FROM steps WHERE once = 0
), marks AS (
    -- Steps that were begun again: what belongs to which beginning.
    SELECT e.run_id, e.seq, s.step, e.type,
           sum(CASE WHEN e.type = 'step.started' THEN 1 ELSE 0 END)
               OVER (PARTITION BY e.run_id, e.step ORDER BY e.seq) AS entry
    FROM again r CROSS JOIN entries e JOIN steps s ON s.run_id = e.run_id AND s.step = coalesce(e.step, '')
    WHERE e.run_id = r.run_id AND s.once = 0
), launches AS (
    SELECT run_id, step, launched, report FROM steps WHERE once = 1
    UNION ALL
    SELECT run_id, step, max(CASE WHEN type = 'prompt' AND entry > 0 THEN 1 ELSE 0 END),
           max(CASE WHEN type = 'agent.ended' THEN seq END)
    FROM marks
    GROUP BY run_id, step, entry
)
SELECT l.run_id, l.step, l.launched,
       CAST(e.data->'usage'->>'input_tokens' AS bigint) AS input_tokens,
       CAST(e.data->'usage'->>'output_tokens' AS bigint) AS output_tokens,
       CAST(e.data->'usage'->>'cost_usd' AS double precision) AS cost_usd
FROM launches l LEFT JOIN orchestrator_events e ON e.run_id = l.run_id AND e.seq = l.report
WHERE l.launched = 1 OR l.report IS NOT NULL
ORDER BY l.run_id, l.step;
