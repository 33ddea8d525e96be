-- One row per failed attempt that was followed by another attempt: the action taken, whether it was delivered (the
-- search found an answer, the command was run, the plan was made), and whether the next attempt passed.
-- What a failure is, the view segue_failed_attempts says: a judge's verdict, checks, hooks or the agent itself. Where no
-- judge was asked, the agent was sent back with what failed: RETRY. After MODIFY_PLAN the next attempt of the run
-- counts, as its tasks may be new. `eligible` lists the actions among which chance decided (`resolve = "random"`);
-- null where the judge chose.
WITH chosen AS (
    SELECT id FROM orchestrator_runs WHERE true /* filters */
), failed AS MATERIALIZED (
    SELECT f.run_id, f.seq FROM segue_failed_attempts f WHERE f.run_id IN (SELECT id FROM chosen)
), steps AS MATERIALIZED (
    SELECT s.run_id, s.task, s.build_phase, s.phase, s.state, s.seq,
           CASE WHEN s.phase = 'verify' AND s.output->'failure'->>'kind' IS NULL
                THEN s.output->'verdict'->>'result' END AS result,
           CASE WHEN s.phase = 'verify' THEN s.output->'verdict'->>'action'
                WHEN s.phase = 'choice' THEN s.output->>'action' END AS action,
           CASE WHEN s.phase = 'choice' THEN s.output->>'eligible' END AS eligible,
           CASE WHEN f.seq IS NULL THEN 0 ELSE 1 END AS failed,
           -- An attempt lasts from one launch that does the work to the next.
           sum(CASE WHEN s.phase IN ('execute', 'resolve') THEN 1 ELSE 0 END)
               OVER (PARTITION BY s.run_id, s.task ORDER BY s.seq) AS number
    FROM orchestrator_steps s LEFT JOIN failed f ON f.run_id = s.run_id AND f.seq = s.seq
    WHERE s.run_id IN (SELECT id FROM chosen) AND s.task IS NOT NULL AND s.state <> 'started'
), attempts AS (
    SELECT run_id, task, number, max(build_phase) AS build_phase, min(seq) AS seq,
           max(CASE WHEN phase = 'resolve' THEN 1 ELSE 0 END) AS resolves,
           max(CASE WHEN result IS NOT NULL THEN seq END) AS judged,
           max(CASE WHEN phase = 'choice' AND state = 'done' THEN seq END) AS drawn,
           max(failed) AS failed,
           max(CASE WHEN phase = 'check' AND state = 'done' THEN 1 ELSE 0 END) AS checked,
           max(CASE WHEN phase = 'search' AND state = 'done' THEN 1 ELSE 0 END) AS searched,
           max(CASE WHEN phase = 'diagnostic' AND state = 'done' THEN 1 ELSE 0 END) AS diagnosed,
           max(CASE WHEN phase = 'replan' AND state = 'done' THEN 1 ELSE 0 END) AS replanned
    FROM steps
    WHERE number > 0
    GROUP BY run_id, task, number
), results AS (
    SELECT a.run_id, a.task, a.number, a.build_phase, coalesce(a.judged, a.seq) AS seq, a.resolves, a.searched,
           a.diagnosed, a.replanned, c.eligible, coalesce(c.action, CASE WHEN v.result <> 'PASS' THEN v.action END, 'RETRY')
               AS action,
           CASE WHEN v.result <> 'PASS' THEN v.result WHEN a.failed = 1 THEN 'FAIL'
                WHEN v.result = 'PASS' OR a.checked = 1 THEN 'PASS' END AS result
    FROM attempts a
    LEFT JOIN steps v ON v.run_id = a.run_id AND v.seq = a.judged
    LEFT JOIN steps c ON c.run_id = a.run_id AND c.seq = a.drawn
), followed AS (
    SELECT r.*, lead(r.result) OVER same_task AS next_of_task, lead(r.resolves) OVER same_task AS continues,
           CASE WHEN r.action = 'MODIFY_PLAN' THEN (
                    SELECT n.result FROM results n
                    WHERE n.run_id = r.run_id AND n.seq > r.seq AND n.result IS NOT NULL
                    ORDER BY n.seq LIMIT 1) END AS next_of_run
    FROM results r
    WINDOW same_task AS (PARTITION BY r.run_id, r.task ORDER BY r.number)
), pairs AS (
    SELECT run_id, task, build_phase, seq, action, eligible, result,
           CASE action WHEN 'RETRY' THEN 1 WHEN 'WEB_SEARCH' THEN searched WHEN 'RUN_DIAGNOSTIC' THEN diagnosed
                       ELSE replanned END AS delivered,
           CASE WHEN action = 'MODIFY_PLAN' THEN next_of_run WHEN continues = 1 THEN next_of_task END AS next_result
    FROM followed
    WHERE result <> 'PASS' AND action IN ('RETRY', 'WEB_SEARCH', 'RUN_DIAGNOSTIC', 'MODIFY_PLAN')
)
SELECT run_id, task, build_phase, seq, action, eligible, delivered, result, next_result,
       CASE WHEN next_result = 'PASS' THEN 1 ELSE 0 END AS recovered
FROM pairs
WHERE next_result IS NOT NULL
ORDER BY run_id, seq;
