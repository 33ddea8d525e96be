-- One row per verdict other than PASS that was followed by another attempt: the action taken, whether it was delivered
-- (the search found an answer, the command was run, the plan was made), and whether the next verdict was PASS.
-- After MODIFY_PLAN that is the next verdict of the run, as its tasks may be new. `eligible` lists the actions among
-- which chance decided (`resolve = "random"`); null where the judge chose.
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
), drawn AS (
    SELECT f.run_id, f.task, f.build_phase, f.seq, f.result, f.attempt, f.next_result, f.next_attempt, f.next_seq,
           f.next_in_run, coalesce(c.output->>'action', f.action) AS action, c.output->>'eligible' AS eligible
    FROM followed f
    LEFT JOIN orchestrator_steps c ON c.run_id = f.run_id AND c.task = f.task AND c.phase = 'choice'
         AND c.state = 'done' AND c.seq > f.seq AND (f.next_seq IS NULL OR c.seq < f.next_seq)
    WHERE f.result <> 'PASS'
), attempts AS (
    SELECT d.run_id, d.task, d.build_phase, d.seq, d.action, d.eligible, d.result,
           CASE WHEN d.action = 'RETRY' THEN 1
                WHEN EXISTS (SELECT 1 FROM orchestrator_steps a
                             WHERE a.run_id = d.run_id AND a.task = d.task AND a.state = 'done' AND a.seq > d.seq
                               AND a.phase = CASE d.action WHEN 'WEB_SEARCH' THEN 'search'
                                                           WHEN 'RUN_DIAGNOSTIC' THEN 'diagnostic' ELSE 'replan' END
                               AND (d.next_seq IS NULL OR a.seq < d.next_seq)) THEN 1 ELSE 0 END AS delivered,
           CASE WHEN d.action = 'MODIFY_PLAN' THEN d.next_in_run
                WHEN d.next_attempt > d.attempt THEN d.next_result
                WHEN EXISTS (SELECT 1 FROM orchestrator_steps a
                             WHERE a.run_id = d.run_id AND a.task = d.task AND a.phase = 'resolve'
                               AND a.state = 'failed' AND a.seq > d.seq
                               AND (d.next_seq IS NULL OR a.seq < d.next_seq)) THEN 'FAIL' END AS next_result
    FROM drawn d
    WHERE d.action IN ('RETRY', 'WEB_SEARCH', 'RUN_DIAGNOSTIC', 'MODIFY_PLAN')
)
SELECT run_id, task, build_phase, seq, action, eligible, delivered, result, next_result,
       CASE WHEN next_result = 'PASS' THEN 1 ELSE 0 END AS recovered
FROM attempts
WHERE next_result IS NOT NULL
ORDER BY run_id, seq;
