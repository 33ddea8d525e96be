-- One row per run, and one per plan made in it: the titles of the tasks.
WITH chosen AS (
    SELECT id, spec FROM orchestrator_runs WHERE true /* filters */
)
SELECT r.id AS run_id, 0 AS seq, r.spec->'titles' AS data
FROM chosen r
UNION ALL
SELECT e.run_id, e.seq, e.data->'titles' AS data
FROM chosen r JOIN orchestrator_events e ON e.run_id = r.id
WHERE e.type = 'plan.revised'
ORDER BY 1, 2;
