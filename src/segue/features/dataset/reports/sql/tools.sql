-- One row per launch: how often the agent ran commands, and how much it read before its first edit.
WITH chosen AS (
    SELECT id FROM orchestrator_runs WHERE true /* filters */
)
SELECT t.run_id, t.step, t.bash, t.reads_before_edit
FROM orchestrator_launch_tools t
WHERE t.run_id IN (SELECT id FROM chosen)
ORDER BY t.run_id, t.step;
