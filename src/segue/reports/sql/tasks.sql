-- One row per task of a run: what it builds, how often it was launched and failed, and how it ended.
-- Failures that say nothing about the work (usage limits, outages, a stop) do not count.
WITH chosen AS (
    SELECT id FROM orchestrator_runs WHERE true /* filters */
)
SELECT s.run_id, s.task, max(s.build_phase) AS build_phase,
       count(CASE WHEN s.phase IN ('execute', 'address', 'resolve') THEN 1 END) AS launches,
       count(CASE WHEN s.state = 'failed' AND s.phase IN ('plan', 'execute', 'address', 'resolve', 'verify')
                   AND coalesce(s.output->'failure'->>'kind', '') NOT IN
                       ('usage_limit', 'rate_limit', 'outage', 'auth', 'interrupted', 'not_started', 'lost')
                  THEN 1 END) AS failures,
       max(CASE WHEN s.phase = 'end' AND s.state = 'done' 
                 AND substr(coalesce(s.output->>'reason', ''), 1, 7) <> 'skipped'
                THEN 1 ELSE 0 END) AS done,
       max(CASE WHEN s.phase = 'end' AND substr(coalesce(s.output->>'reason', ''), 1, 7) = 'skipped'
                THEN 1 ELSE 0 END) AS skipped,
       max(CASE WHEN s.phase = 'end' THEN 1 ELSE 0 END) AS ended
FROM chosen r JOIN orchestrator_steps s ON s.run_id = r.id
WHERE s.task IS NOT NULL
GROUP BY s.run_id, s.task
ORDER BY s.run_id, s.task;
