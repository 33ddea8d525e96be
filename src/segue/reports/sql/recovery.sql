-- One row per verdict other than PASS that was followed by another attempt: the action taken, and whether the
-- next verdict was PASS. After MODIFY_PLAN that is the next verdict of the run, as its tasks may be new.
WITH chosen AS (
    SELECT id FROM orchestrator_runs WHERE true /* filters */
), verdicts AS (
    SELECT s.run_id, s.task, s.build_phase, s.seq, s.attempt,
           s.output->'verdict'->>'result' AS result, s.output->'verdict'->>'action' AS action
    FROM chosen r JOIN orchestrator_steps s ON s.run_id = r.id
    WHERE s.phase = 'verify' AND s.state <> 'started' AND s.output->'failure'->>'kind' IS NULL
), followed AS (
    SELECT v.*,
           lead(v.result) OVER same_task AS next_result, lead(v.attempt) OVER same_task AS next_attempt,
           lead(v.seq) OVER same_task AS next_seq, lead(v.result) OVER same_run AS next_in_run
    FROM verdicts v
    WINDOW same_task AS (PARTITION BY v.run_id, v.task ORDER BY v.seq),
           same_run AS (PARTITION BY v.run_id ORDER BY v.seq)
), attempts AS (
    SELECT f.run_id, f.task, f.build_phase, f.seq, f.action, f.result,
           CASE WHEN f.action = 'MODIFY_PLAN' THEN f.next_in_run
                WHEN f.next_attempt > f.attempt THEN f.next_result
                WHEN EXISTS (SELECT 1 FROM orchestrator_steps a
                             WHERE a.run_id = f.run_id AND a.task = f.task AND a.phase = 'resolve'
                               AND a.state = 'failed' AND a.seq > f.seq
                               AND (f.next_seq IS NULL OR a.seq < f.next_seq)) THEN 'FAIL' END AS next_result
    FROM followed f
)
SELECT run_id, task, build_phase, seq, action, result, next_result,
       CASE WHEN next_result = 'PASS' THEN 1 ELSE 0 END AS recovered
FROM attempts
WHERE result <> 'PASS' AND next_result IS NOT NULL
  AND action IN ('RETRY', 'WEB_SEARCH', 'RUN_DIAGNOSTIC', 'MODIFY_PLAN')
ORDER BY run_id, seq;
