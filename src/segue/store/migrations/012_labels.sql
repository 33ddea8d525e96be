CREATE INDEX orchestrator_events_labels ON orchestrator_events (run_id, seq) WHERE type = 'label';

-- Whether work was right, as people, files, hidden tests and the later history of a repository say: of each of them the
-- last word about the same work counts.
CREATE VIEW segue_labels AS
SELECT e.run_id, e.seq, e.data->>'task' AS task, nullif(e.data->>'step', '') AS step, {flag e.data good} AS good,
       e.data->>'origin' AS origin, nullif(e.data->>'by', '') AS labelled_by,
       nullif(e.data->>'reason', '') AS reason, {instant e.ts} AS at
FROM orchestrator_events e
WHERE e.type = 'label' AND NOT EXISTS (
    SELECT 1 FROM orchestrator_events l
    WHERE l.type = 'label' AND l.run_id = e.run_id AND l.seq > e.seq AND l.data->>'task' = e.data->>'task'
      AND coalesce(l.data->>'step', '') = coalesce(e.data->>'step', '')
      AND l.data->>'origin' = e.data->>'origin');

ALTER VIEW segue_labels SET (security_invoker = true);

-- As before, with the generation of the step: a redo repeats its key.
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
SELECT e.run_id, e.seq, s.key AS step, s.gen, e.task, e.build_phase, e.result, e.asked, e.action,
       e.chosen IS NOT NULL AS by_chance, e.eligible, e.delivered = 1 AS delivered,
       CASE WHEN e.delivered = 1 THEN e.action WHEN e.continues = 1 THEN 'RETRY' END AS delivered_action,
       CASE WHEN e.delivered = 0 THEN e.problem END AS problem,
       e.next_result, e.next_result = 'PASS' AS recovered, {instant s.ended} AS at
FROM ended e JOIN orchestrator_steps s ON s.run_id = e.run_id AND s.task = e.task AND s.seq = e.seq;

ALTER VIEW segue_recoveries SET (security_invoker = true);

-- A run lasts until it ended last; what is said about it later makes it no longer.
DROP VIEW segue_runs;

CREATE VIEW segue_runs AS
SELECT r.id AS run_id, r.kind, r.state, r.note, r.spec->>'source_kind' AS source_kind,
       r.spec->>'source' AS source, r.spec->>'repo' AS repo, r.spec->>'flow' AS flow,
       r.spec->>'agent' AS agent, r.spec->>'model' AS model,
       nullif(r.spec->'trial'->>'experiment', '') AS experiment, nullif(r.spec->'trial'->>'arm', '') AS arm,
       (SELECT count(DISTINCT s.task) FROM orchestrator_steps s
        WHERE s.run_id = r.id AND s.phase = 'base') AS tasks,
       (SELECT count(DISTINCT s.task) FROM orchestrator_steps s
        WHERE s.run_id = r.id AND s.phase = 'end' AND s.state = 'done' AND s.superseded IS NULL) AS tasks_done,
       (SELECT count(*) FROM segue_attempts a WHERE a.run_id = r.id) AS attempts,
       (SELECT CAST(sum(a.input_tokens) AS bigint) FROM segue_attempts a WHERE a.run_id = r.id) AS input_tokens,
       (SELECT CAST(sum(a.output_tokens) AS bigint) FROM segue_attempts a WHERE a.run_id = r.id)
           AS output_tokens,
       (SELECT sum(a.cost_usd) FROM segue_attempts a WHERE a.run_id = r.id) AS cost_usd,
       (SELECT count(*) FROM segue_attempts a WHERE a.run_id = r.id AND a.cost_usd IS NULL) AS attempts_unpriced,
       CAST(coalesce(CASE WHEN r.state IN ('done', 'failed', 'stopped', 'needs_human') THEN (
                         SELECT max(e.ts) FROM orchestrator_events e WHERE e.type = 'run.ended' AND e.run_id = r.id) END,
                     r.updated)
            - coalesce((SELECT e.ts FROM orchestrator_events e WHERE e.run_id = r.id ORDER BY e.seq LIMIT 1), r.created)
            AS double precision) / 1000 AS seconds,
       {instant r.created} AS started_at, {instant r.updated} AS updated_at
FROM orchestrator_runs r;

ALTER VIEW segue_runs SET (security_invoker = true);

-- As before, with who chose the search and where its words come from.
DROP VIEW segue_searches;

CREATE VIEW segue_searches AS
SELECT e.run_id, e.seq, e.step, s.gen, e.data->>'task' AS task, e.data->>'build_phase' AS build_phase,
       e.data->>'query' AS query, coalesce({flag e.data drawn}, false) AS by_chance,
       nullif(e.data->>'made_from', '') AS made_from, e.data->>'source' AS source, coalesce({length e.data results}, 0) AS hits,
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
