-- One row per task of a run: its build phase, launches and failures, and how it ended: done, skipped, replaced by
-- a new plan, or none of these (for example, accepted by a person).
-- Failures that say nothing about the work (usage limits, outages, a stop) do not count.
WITH chosen AS (
    SELECT id FROM orchestrator_runs WHERE true /* filters */
), steps AS (
    SELECT s.run_id, s.task, s.build_phase, s.phase, s.state,
           coalesce(s.output->'failure'->>'kind', '') AS failure,
           s.phase = 'end' AND s.superseded IS NULL AS is_end,
           coalesce(s.output->>'reason', '') AS reason,
           CAST(s.output->>'replanned' AS text) IN ('1', 'true') AS is_replaced
    FROM chosen r JOIN orchestrator_steps s ON s.run_id = r.id
    WHERE s.task IS NOT NULL
)
SELECT run_id, task, max(build_phase) AS build_phase,
       count(CASE WHEN phase IN ('execute', 'address', 'resolve') THEN 1 END) AS launches,
       count(CASE WHEN state = 'failed' AND phase IN ('plan', 'execute', 'address', 'resolve', 'verify')
                   AND failure NOT IN
                       ('usage_limit', 'rate_limit', 'outage', 'auth', 'interrupted', 'not_started', 'lost')
                  THEN 1 END) AS failures,
       max(CASE WHEN is_end AND state = 'done' AND substr(reason, 1, 7) <> 'skipped'
                 AND substr(reason, 1, 8) <> 'accepted' THEN 1 ELSE 0 END) AS done,
       max(CASE WHEN is_end AND substr(reason, 1, 7) = 'skipped' THEN 1 ELSE 0 END) AS skipped,
       max(CASE WHEN is_end AND is_replaced THEN 1 ELSE 0 END) AS replaced,
       max(CASE WHEN is_end THEN 1 ELSE 0 END) AS ended
FROM steps
GROUP BY run_id, task
ORDER BY run_id, task;
