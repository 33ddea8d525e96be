-- One row per task of a run that was judged or checked, or whose agent failed: whether the first attempt passed,
-- before any fix.
WITH chosen AS (
    SELECT id FROM orchestrator_runs WHERE true /* filters */
)
SELECT f.run_id, f.task, f.build_phase, f.passed
FROM segue_first_attempts f
WHERE f.run_id IN (SELECT id FROM chosen)
ORDER BY f.run_id, f.task;
