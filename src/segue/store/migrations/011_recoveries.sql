-- What was done about a failed attempt, and how the next one ended. What a failure is, segue_failed_attempts says: a
-- judge's verdict, checks, hooks or the agent itself. An attempt lasts from one launch that does the work to the next.
DROP VIEW segue_recoveries;

CREATE VIEW segue_recoveries AS
WITH steps AS (
    SELECT s.run_id, s.seq, s.task, s.build_phase, s.phase, s.state, s.output,
           CASE WHEN s.phase = 'verify' AND s.output->'failure'->>'kind' IS NULL
                THEN s.output->'verdict'->>'result' END AS result,
           CASE WHEN EXISTS (SELECT 1 FROM segue_failed_attempts f
                             WHERE f.run_id = s.run_id AND f.step = s.key AND f.gen = s.gen) THEN s.seq END AS failed,
           sum(CASE WHEN s.phase IN ('execute', 'resolve') THEN 1 ELSE 0 END)
               OVER (PARTITION BY s.run_id, s.task ORDER BY s.seq) AS number
    FROM orchestrator_steps s
    WHERE s.task IS NOT NULL AND s.state <> 'started'
), known AS (
    -- Windows instead of groups: SQLite finds the steps of one run by an index only so.
    SELECT run_id, task, number, phase, max(build_phase) OVER attempt AS build_phase, min(seq) OVER attempt AS first,
           max(CASE WHEN result IS NOT NULL THEN seq END) OVER attempt AS judged, min(failed) OVER attempt AS failed,
           max(CASE WHEN phase = 'choice' AND state = 'done' THEN seq END) OVER attempt AS drawn,
           max(CASE WHEN phase = 'check' AND state = 'done' THEN 1 ELSE 0 END) OVER attempt AS checked,
           max(CASE WHEN phase = 'end' AND {flag output skipped} THEN 1 ELSE 0 END) OVER attempt AS skipped,
           max(CASE phase WHEN 'search' THEN 'WEB_SEARCH' WHEN 'diagnostic' THEN 'RUN_DIAGNOSTIC'
                          WHEN 'replan' THEN 'MODIFY_PLAN' END) OVER attempt AS tried,
           max(CASE WHEN phase IN ('search', 'diagnostic', 'replan') AND state = 'done' THEN 1 ELSE 0 END)
               OVER attempt AS succeeded,
           max(CASE WHEN phase IN ('search', 'diagnostic', 'replan') AND state = 'failed'
                    THEN coalesce(nullif(output->>'search_failure', ''), nullif(output->>'reason', ''),
                                  output->'failure'->>'message', output->'verdict'->>'reason') END)
               OVER attempt AS problem
    FROM steps
    WINDOW attempt AS (PARTITION BY run_id, task, number)
), results AS (
    -- An attempt about which nothing is known, because of a usage limit or a stop, is none.
    SELECT a.*, v.output->'verdict'->>'action' AS asked, c.output->>'action' AS chosen,
           c.output->>'eligible' AS eligible,
           CASE WHEN v.output->'verdict'->>'result' <> 'PASS' THEN v.output->'verdict'->>'result'
                WHEN a.failed IS NOT NULL THEN 'FAIL' ELSE 'PASS' END AS result,
           CASE WHEN v.output->'verdict'->>'result' <> 'PASS' THEN a.judged
                ELSE coalesce(a.failed, a.judged, a.first) END AS seq
    FROM known a
    LEFT JOIN orchestrator_steps v ON v.run_id = a.run_id AND v.task = a.task AND v.seq = a.judged
    LEFT JOIN orchestrator_steps c ON c.run_id = a.run_id AND c.task = a.task AND c.seq = a.drawn
    WHERE a.phase IN ('execute', 'resolve')
      AND (a.judged IS NOT NULL OR a.failed IS NOT NULL OR a.checked = 1)
), followed AS (
    SELECT r.*, coalesce(lead(CASE r.phase WHEN 'resolve' THEN 1 ELSE 0 END) OVER same_task, 0) AS continues,
           lead(r.result) OVER same_task AS next_of_task
    FROM results r
    WINDOW same_task AS (PARTITION BY r.run_id, r.task ORDER BY r.number)
), decided AS (
    SELECT t.*, coalesce(t.chosen, t.tried,
               CASE WHEN t.asked IN ('WEB_SEARCH', 'RUN_DIAGNOSTIC', 'MODIFY_PLAN') THEN t.asked
                    WHEN t.skipped = 1 THEN 'SKIP' ELSE 'RETRY' END) AS action
    FROM followed t
    WHERE t.result <> 'PASS'
      AND (t.continues = 1 OR t.tried IS NOT NULL OR t.skipped = 1 OR t.asked = 'MODIFY_PLAN')
), ended AS (
    SELECT d.*, CASE WHEN d.action IN ('RETRY', 'SKIP') THEN 1 ELSE d.succeeded END AS delivered,
           CASE WHEN d.action = 'MODIFY_PLAN' THEN (
                    SELECT coalesce(n.output->'verdict'->>'result', 'FAIL') FROM orchestrator_steps n
                    WHERE n.run_id = d.run_id AND n.seq > d.seq AND n.task IS NOT NULL
                      AND (n.phase = 'verify' AND n.state <> 'started' AND n.output->'failure'->>'kind' IS NULL
                           OR EXISTS (SELECT 1 FROM segue_failed_attempts f
                                      WHERE f.run_id = n.run_id AND f.step = n.key AND f.gen = n.gen))
                    ORDER BY n.seq LIMIT 1)
                WHEN d.continues = 1 THEN d.next_of_task END AS next_result
    FROM decided d
)
SELECT e.run_id, e.seq, s.key AS step, e.task, e.build_phase, e.result, e.asked, e.action,
       e.chosen IS NOT NULL AS by_chance, e.eligible, e.delivered = 1 AS delivered,
       CASE WHEN e.delivered = 1 THEN e.action WHEN e.continues = 1 THEN 'RETRY' END AS delivered_action,
       CASE WHEN e.delivered = 0 THEN e.problem END AS problem,
       e.next_result, e.next_result = 'PASS' AS recovered, {instant s.ended} AS at
FROM ended e JOIN orchestrator_steps s ON s.run_id = e.run_id AND s.task = e.task AND s.seq = e.seq;

ALTER VIEW segue_recoveries SET (security_invoker = true);

DROP VIEW segue_searches;

CREATE VIEW segue_searches AS
SELECT e.run_id, e.seq, e.step, s.gen, e.data->>'task' AS task, e.data->>'build_phase' AS build_phase,
       e.data->>'query' AS query, e.data->>'source' AS source, coalesce({length e.data results}, 0) AS hits,
       e.data->'results' AS results, nullif(e.data->>'failure', '') AS failure,
       coalesce(e.data->>'failure', '') = '' AS delivered,
       (SELECT coalesce(n.output->'verdict'->>'result', 'FAIL')
        FROM orchestrator_steps n
        WHERE n.run_id = e.run_id AND n.task = e.data->>'task' AND n.seq > e.seq
          AND (n.phase = 'verify' AND n.state <> 'started' AND n.output->'failure'->>'kind' IS NULL
               OR n.phase = 'end'
               OR EXISTS (SELECT 1 FROM segue_failed_attempts f WHERE f.run_id = n.run_id AND f.step = n.key
                                                                   AND f.gen = n.gen))
        ORDER BY n.seq LIMIT 1) AS next_result,
       {instant e.ts} AS at
FROM orchestrator_events e
{step e}
WHERE e.type = 'search';

ALTER VIEW segue_searches SET (security_invoker = true);
