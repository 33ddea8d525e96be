-- One row per failed attempt that was followed by another attempt: the action taken, whether it was delivered (the
-- search found an answer, the command was run, the plan was made), and whether the next attempt passed. The view
-- segue_recoveries says more.
WITH chosen AS (
    SELECT id FROM orchestrator_runs WHERE true /* filters */
)
SELECT run_id, task, build_phase, seq, action, CASE WHEN delivered THEN 1 ELSE 0 END AS delivered, result,
       next_result, CASE WHEN recovered THEN 1 ELSE 0 END AS recovered
FROM segue_recoveries
WHERE run_id IN (SELECT id FROM chosen) AND next_result IS NOT NULL AND action <> 'SKIP'
ORDER BY run_id, seq;
