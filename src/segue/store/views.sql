-- The flat tables that people ask, as views of the journal; dataset.py says what their columns mean.
-- {number …} is a JSON number or null, whatever an agent wrote there; {instant …} is a date for people.

CREATE VIEW segue_attempts AS
SELECT s.run_id, s.key AS step, s.gen, s.seq, s.task, s.phase, s.build_phase, s.attempt, s.agent, s.model,
       s.output->>'model' AS model_reported, s.state,
       s.output->'verdict'->>'result' AS result, s.output->'verdict'->>'action' AS action,
       s.output->'verdict'->>'reason' AS reason,
       s.output->'failure'->>'kind' AS failure, s.output->'failure'->>'message' AS failure_message,
       {integer s.output exit_code} AS exit_code,
       CASE WHEN s.ended IS NOT NULL THEN coalesce({flag s.output changed}, false) END AS changed,
       coalesce({integer s.output files_changed}, 0) AS files_changed,
       nullif({integer s.output usage input_tokens}, 0) AS input_tokens,
       nullif({integer s.output usage output_tokens}, 0) AS output_tokens,
       {real s.output usage cost_usd} AS cost_usd,
       {real s.output duration} AS seconds,
       coalesce({length s.output tampering}, 0) AS tampering,
       s.input->>'prompt' AS prompt, s.output->>'text' AS answer, s.output->>'session' AS session,
       (SELECT p.output->'proof'->>'level' FROM orchestrator_steps p
        WHERE p.run_id = s.run_id AND p.task = s.task AND p.phase = 'end' AND p.seq > s.seq
        ORDER BY p.seq LIMIT 1) AS proof_level,
       s.tries, s.superseded IS NULL AS is_current,
       {instant s.started} AS started_at, {instant s.ended} AS ended_at
FROM orchestrator_steps s
WHERE s.input->>'prompt' IS NOT NULL AND s.input->>'prompt' <> '';

-- A run lasts until it ended last; what is said about it later makes it no longer.
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

-- One definition of a failed attempt for all. An attempt fails if its agent fails, or checks, hooks or a judge object to
-- its work: checks that pass do so where they send it back for old tests that it changed unasked. It does not if that says
-- nothing about the work: usage limits, outages, a stop, a judge without an answer, changed tests that the task asks for,
-- and independent tests that were found to be wrong.
CREATE VIEW segue_failed_attempts AS
SELECT s.run_id, s.seq, s.key AS step, s.gen, s.task, s.phase, s.build_phase, s.attempt, s.agent, s.model,
       s.output->'failure'->>'kind' AS failure,
       coalesce(s.output->'failure'->>'message', s.output->'verdict'->>'reason',
                (SELECT max(e.data->>'reason') FROM orchestrator_events e
                 WHERE e.type = 'verdict' AND e.run_id = s.run_id AND e.step = s.key)) AS reason,
       {instant s.started} AS started_at, {instant s.ended} AS ended_at
FROM orchestrator_steps s
WHERE s.task IS NOT NULL AND (
    s.state = 'failed'
    AND (s.phase IN ('check', 'hooks')
         OR s.phase IN ('plan', 'execute', 'address', 'resolve') AND s.output->'verdict'->>'result' IS NOT NULL
         OR s.phase = 'verify' AND s.output->'verdict'->>'result' IS NOT NULL AND s.output->'failure'->>'kind' IS NULL)
    AND coalesce(s.output->'failure'->>'kind', '') NOT IN
        ('usage_limit', 'rate_limit', 'outage', 'auth', 'interrupted', 'not_started', 'lost')
    AND NOT (s.phase = 'check' AND EXISTS (
        SELECT 1 FROM orchestrator_steps c
        WHERE c.run_id = s.run_id AND c.task = s.task AND c.seq > s.seq
          AND (c.phase = 'contest' AND c.state = 'done' OR c.phase = 'dispute' AND c.state = 'failed')
          AND NOT EXISTS (SELECT 1 FROM orchestrator_steps n
                          WHERE n.run_id = s.run_id AND n.task = s.task AND n.seq > s.seq AND n.seq < c.seq
                            AND n.phase IN ('check', 'resolve', 'end'))))
    OR s.state = 'done' AND s.phase = 'check' AND EXISTS (
        SELECT 1 FROM orchestrator_steps n
        JOIN orchestrator_events e ON e.run_id = n.run_id AND e.seq > s.seq AND e.seq < n.seq
        WHERE n.run_id = s.run_id AND n.task = s.task AND n.phase = 'resolve' AND e.type = 'verdict' AND e.step = s.key
          AND n.seq = (SELECT min(m.seq) FROM orchestrator_steps m
                       WHERE m.run_id = s.run_id AND m.task = s.task AND m.seq > s.seq
                         AND m.phase IN ('check', 'resolve', 'commit', 'hooks', 'verify', 'end'))));

-- Only a task that is done has a level of proof; what a person accepted keeps the level that was measured.
CREATE VIEW segue_tasks AS
SELECT t.run_id, t.task, b.data->>'title' AS title, coalesce(b.data->>'kind', 'build') AS kind,
       (SELECT max(s.build_phase) FROM orchestrator_steps s WHERE s.run_id = t.run_id AND s.task = t.task)
           AS build_phase,
       CASE WHEN m.seq > coalesce(e.seq, 0) AND m.seq > t.last_start THEN
                CASE WHEN coalesce({flag m.data skipped}, false) THEN 'skipped'
                     WHEN {flag m.data done} THEN 'done' ELSE 'pending' END
            WHEN e.seq IS NULL OR e.seq < t.last_start THEN 'open'
            WHEN coalesce({flag e.data skipped}, false) THEN 'skipped'
            WHEN {flag e.data done} THEN 'done'
            WHEN coalesce({flag e.data replanned}, false) THEN 'replanned'
            ELSE 'needs_human' END AS state,
       e.data->>'reason' AS reason,
       CASE WHEN m.seq > coalesce(e.seq, 0) AND m.seq > t.last_start THEN
                CASE WHEN {flag m.data done} AND NOT coalesce({flag m.data skipped}, false) THEN
                    coalesce(CASE WHEN e.seq > t.last_start THEN e.data->'proof'->>'level' END, 'changed') END
            WHEN e.seq > t.last_start AND {flag e.data done} AND NOT coalesce({flag e.data skipped}, false)
            THEN e.data->'proof'->>'level' END AS proof_level,
       e.data->'proof'->'reasons' AS proof_reasons,
       CASE WHEN m.seq > coalesce(e.seq, 0) AND m.seq > t.last_start THEN m.data->>'by' END AS decided_by,
       (SELECT v.data->>'result' FROM orchestrator_events v
        WHERE v.type = 'verdict' AND v.run_id = t.run_id AND v.data->>'task' = t.task
          AND (v.step LIKE '%/verify/%' OR v.step LIKE '%/verify')
        ORDER BY v.seq LIMIT 1) AS first_verdict,
       (SELECT count(*) FROM segue_attempts a WHERE a.run_id = t.run_id AND a.task = t.task) AS attempts,
       (SELECT count(*) FROM segue_failed_attempts a WHERE a.run_id = t.run_id AND a.task = t.task) AS failed_attempts,
       (SELECT sum(a.cost_usd) FROM segue_attempts a WHERE a.run_id = t.run_id AND a.task = t.task) AS cost_usd,
       e.data->>'commit' AS commit_id, e.data->>'branch' AS branch,
       coalesce({integer e.data remaining}, 0) AS findings_open,
       CAST(e.ts - f.ts AS double precision) / 1000 AS seconds,
       {instant f.ts} AS started_at, {instant e.ts} AS ended_at
FROM (
    SELECT s.run_id, s.data->>'task' AS task, min(s.seq) AS first_start, max(s.seq) AS last_start
    FROM orchestrator_events s WHERE s.type = 'task.started' GROUP BY s.run_id, s.data->>'task'
) t
JOIN orchestrator_events f ON f.run_id = t.run_id AND f.seq = t.first_start
JOIN orchestrator_events b ON b.run_id = t.run_id AND b.seq = t.last_start
LEFT JOIN orchestrator_events e ON e.run_id = t.run_id AND e.seq = (
    SELECT max(x.seq) FROM orchestrator_events x
    WHERE x.type = 'task.ended' AND x.run_id = t.run_id AND x.data->>'task' = t.task)
LEFT JOIN orchestrator_events m ON m.run_id = t.run_id AND m.seq = (
    SELECT max(x.seq) FROM orchestrator_events x
    WHERE x.type = 'task.marked' AND x.run_id = t.run_id AND x.data->>'task' = t.task
      AND x.data->>'by' IS NOT NULL);

-- The first attempt lasts until the first verdict of a judge, or without one until the first checks.
CREATE VIEW segue_first_attempts AS
SELECT t.run_id, t.task, t.build_phase,
       t.first IS NOT NULL AND (t.fixed IS NULL OR t.fixed > t.first)
       AND NOT EXISTS (SELECT 1 FROM segue_failed_attempts f
                       WHERE f.run_id = t.run_id AND f.task = t.task AND f.seq <= t.first
                         AND f.phase IN ('execute', 'check', 'hooks', 'verify')) AS passed
FROM (
    SELECT s.run_id, s.task, max(s.build_phase) AS build_phase,
           coalesce(min(CASE WHEN s.phase = 'verify' AND s.output->'failure'->>'kind' IS NULL THEN s.seq END),
                    min(CASE WHEN s.phase = 'check' THEN s.seq END)) AS first,
           min(CASE WHEN s.phase = 'resolve' THEN s.seq END) AS fixed
    FROM orchestrator_steps s
    WHERE s.task IS NOT NULL AND s.state <> 'started'
      AND (s.phase IN ('check', 'resolve', 'verify')
           OR s.phase = 'execute' AND s.state = 'failed' AND coalesce(s.output->'failure'->>'kind', '') NOT IN
              ('usage_limit', 'rate_limit', 'outage', 'auth', 'interrupted', 'not_started', 'lost'))
    GROUP BY s.run_id, s.task
) t
WHERE t.first IS NOT NULL
   OR EXISTS (SELECT 1 FROM segue_failed_attempts f WHERE f.run_id = t.run_id AND f.task = t.task);

-- A call is listed once: with its end, or without one when nobody told of it.
CREATE VIEW segue_tool_calls AS
SELECT e.run_id, e.seq, e.step, s.gen, s.task, s.phase, s.agent, s.model,
       nullif(e.data->>'id', '') AS call_id, e.data->>'name' AS name, nullif(e.data->>'status', '') AS status,
       true AS is_ended, e.data->'input' AS input, e.data->>'result' AS result,
       coalesce({integer e.data result exit_code}, {integer e.data result exitCode}) AS exit_code,
       CAST(e.ts - b.ts AS double precision) / 1000 AS seconds,
       {instant b.ts} AS started_at, {instant e.ts} AS ended_at
FROM orchestrator_events e
{step e}
LEFT JOIN orchestrator_events b ON b.run_id = e.run_id AND b.seq = (
    SELECT x.seq FROM orchestrator_events x
    WHERE x.type = 'agent.tool' AND x.data->>'state' = 'started' AND x.run_id = e.run_id AND x.step = e.step
      AND x.seq < e.seq AND x.data->>'id' = e.data->>'id'
    ORDER BY x.seq DESC LIMIT 1)
WHERE e.type = 'agent.tool' AND coalesce(e.data->>'state', '') <> 'started'
UNION ALL
SELECT e.run_id, e.seq, e.step, s.gen, s.task, s.phase, s.agent, s.model,
       nullif(e.data->>'id', '') AS call_id, e.data->>'name' AS name, NULL AS status,
       false AS is_ended, e.data->'input' AS input, NULL AS result, NULL AS exit_code,
       NULL AS seconds, {instant e.ts} AS started_at, NULL AS ended_at
FROM orchestrator_events e
{step e}
WHERE e.type = 'agent.tool' AND e.data->>'state' = 'started'
  AND NOT EXISTS (
    SELECT 1 FROM orchestrator_events x
    WHERE x.type = 'agent.tool' AND coalesce(x.data->>'state', '') <> 'started' AND x.run_id = e.run_id
      AND x.step = e.step AND x.data->>'name' = e.data->>'name' AND x.seq > e.seq
      AND coalesce(x.data->>'id', '') = coalesce(e.data->>'id', ''));

CREATE VIEW segue_commands AS
SELECT c.run_id, c.seq, c.step, c.gen, c.task, c.phase, c.agent, c.model, 'agent' AS origin,
       c.input->>'command' AS command, c.status, c.exit_code, c.seconds, coalesce(c.ended_at, c.started_at) AS at
FROM segue_tool_calls c
WHERE c.name = 'Bash'
UNION ALL
SELECT e.run_id, e.seq, e.step, s.gen, e.data->>'task' AS task, s.phase, s.agent, s.model, e.type AS origin,
       e.data->>'command' AS command,
       CASE WHEN NOT coalesce({flag e.data allowed}, true) THEN 'refused' END AS status,
       {integer e.data exit_code} AS exit_code, coalesce({real e.data seconds}, 0.0) AS seconds,
       {instant e.ts} AS at
FROM orchestrator_events e
{step e}
WHERE e.type = 'diagnostic' OR e.type = 'check';

CREATE VIEW segue_errors AS
SELECT e.run_id, e.seq, e.step, s.gen, e.data->>'task' AS task, e.data->>'phase' AS phase,
       e.data->>'build_phase' AS build_phase, s.agent, s.model, e.data->>'kind' AS kind,
       e.data->>'failure' AS failure, e.data->>'message' AS message, e.data->>'signature' AS signature,
       {integer e.data exit_code} AS exit_code, e.data->>'tool' AS tool, e.data->>'command' AS command,
       e.data->>'stderr_tail' AS stderr_tail, e.data->'commands_run' AS commands_run, {instant e.ts} AS at
FROM orchestrator_events e
{step e}
WHERE e.type = 'error';

CREATE VIEW segue_verdicts AS
SELECT e.run_id, e.seq, e.step, s.gen, e.data->>'task' AS task, s.phase, s.build_phase, s.attempt,
       s.agent, s.model, coalesce(e.step LIKE '%/verify/%' OR e.step LIKE '%/verify', false) AS is_judged,
       e.data->>'result' AS result, e.data->>'action' AS action, e.data->>'reason' AS reason,
       e.data->>'request' AS request, coalesce({length e.data criteria}, 0) AS criteria,
       e.data->'caveats' AS caveats, {instant e.ts} AS at
FROM orchestrator_events e
{step e}
WHERE e.type = 'verdict';

CREATE VIEW segue_criteria AS
SELECT e.run_id, e.seq, {position c} AS n, e.step, s.gen, e.data->>'task' AS task, s.build_phase, s.agent, s.model,
       c.value->>'key' AS criterion, {flag c.value met} AS met, c.value->>'evidence' AS evidence,
       {instant e.ts} AS at
FROM orchestrator_events e
{step e}
CROSS JOIN {each c e.data criteria}
WHERE e.type = 'verdict';

CREATE VIEW segue_checks AS
SELECT e.run_id, e.seq, e.step, s.gen, e.data->>'task' AS task, e.data->>'build_phase' AS build_phase,
       e.data->>'command' AS command, {integer e.data exit_code} AS exit_code,
       coalesce({real e.data seconds}, 0.0) AS seconds,
       coalesce(CASE WHEN e.data->'result'->>'state' IS NOT NULL
                     THEN e.data->'result'->>'state' IN ('passed', 'nothing')
                     ELSE {integer e.data exit_code} = 0 END, false) AS ok,
       e.data->'result'->>'state' AS state, e.data->'result'->>'reason' AS reason,
       e.data->'result'->>'runner' AS runner, e.data->'result'->>'seal' AS seal,
       {flag e.data result noticed} AS noticed, coalesce({flag e.data result scenario}, false) AS is_scenario,
       e.data->'result'->>'of' AS of_task, {integer e.data result passed} AS tests_passed,
       e.data->'result'->'failing' AS failing, e.data->'result'->'broken' AS broken,
       e.data->'result'->'proved' AS proved, e.data->'result'->'weaknesses' AS weaknesses,
       e.data->>'output' AS printed, e.data->'found' AS report, {instant e.ts} AS at
FROM orchestrator_events e
{step e}
WHERE e.type = 'check';

CREATE VIEW segue_findings AS
SELECT s.run_id, s.seq, {position f} AS n, s.key AS step, s.gen, s.task, s.attempt AS round, s.agent AS reviewer,
       f.value->>'id' AS finding, f.value->>'file' AS file, {integer f.value line} AS line,
       f.value->>'severity' AS severity, f.value->>'rule' AS rule, f.value->>'message' AS message,
       nullif(f.value->>'suggestion', '') AS suggestion, {instant s.ended} AS at
FROM orchestrator_steps s
CROSS JOIN {each f s.output findings}
WHERE s.phase = 'review';

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
           max(CASE WHEN phase = 'check' AND state = 'done' THEN 1 ELSE 0 END) OVER attempt AS checked,
           max(CASE WHEN phase = 'end' AND {flag output skipped} THEN 1 ELSE 0 END) OVER attempt AS skipped,
           max(CASE phase WHEN 'search' THEN 'WEB_SEARCH' WHEN 'diagnostic' THEN 'RUN_DIAGNOSTIC'
                          WHEN 'replan' THEN 'MODIFY_PLAN' END) OVER attempt AS tried,
           max(CASE WHEN phase IN ('search', 'diagnostic', 'replan') AND state = 'done' THEN 1 ELSE 0 END)
               OVER attempt AS succeeded,
           max(CASE WHEN phase IN ('search', 'diagnostic', 'replan') AND state = 'failed'
                    THEN coalesce(nullif(output->>'reason', ''),
                                  output->'failure'->>'message', output->'verdict'->>'reason') END)
               OVER attempt AS problem
    FROM steps
    WINDOW attempt AS (PARTITION BY run_id, task, number)
), results AS (
    -- An attempt about which nothing is known, because of a usage limit or a stop, is none.
    SELECT a.*, v.output->'verdict'->>'action' AS asked,
           CASE WHEN v.output->'verdict'->>'result' <> 'PASS' THEN v.output->'verdict'->>'result'
                WHEN a.failed IS NOT NULL THEN 'FAIL' ELSE 'PASS' END AS result,
           CASE WHEN v.output->'verdict'->>'result' <> 'PASS' THEN a.judged
                ELSE coalesce(a.failed, a.judged, a.first) END AS seq
    FROM known a
    LEFT JOIN orchestrator_steps v ON v.run_id = a.run_id AND v.task = a.task AND v.seq = a.judged
    WHERE a.phase IN ('execute', 'resolve')
      AND (a.judged IS NOT NULL OR a.failed IS NOT NULL OR a.checked = 1)
), followed AS (
    SELECT r.*, coalesce(lead(CASE r.phase WHEN 'resolve' THEN 1 ELSE 0 END) OVER same_task, 0) AS continues,
           lead(r.result) OVER same_task AS next_of_task
    FROM results r
    WINDOW same_task AS (PARTITION BY r.run_id, r.task ORDER BY r.number)
), decided AS (
    SELECT t.*, coalesce(t.tried,
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
       e.delivered = 1 AS delivered,
       CASE WHEN e.delivered = 1 THEN e.action WHEN e.continues = 1 THEN 'RETRY' END AS delivered_action,
       CASE WHEN e.delivered = 0 THEN e.problem END AS problem,
       e.next_result, e.next_result = 'PASS' AS recovered, {instant s.ended} AS at
FROM ended e JOIN orchestrator_steps s ON s.run_id = e.run_id AND s.task = e.task AND s.seq = e.seq;

CREATE VIEW segue_searches AS
SELECT e.run_id, e.seq, e.step, s.gen, e.data->>'task' AS task, e.data->>'build_phase' AS build_phase,
       e.data->>'query' AS query,
       e.data->>'source' AS source, coalesce({length e.data results}, 0) AS hits,
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

-- A launch that was adopted after a crash tells its prompt and its patch again: the last word counts.
CREATE VIEW segue_prompts AS
SELECT e.run_id, e.seq, e.step, s.gen, s.task, s.phase, s.build_phase, s.attempt, s.agent, s.model,
       e.data->>'digest' AS digest, {integer e.data length} AS length, p.text, {instant e.ts} AS at
FROM orchestrator_events e
{step e}
LEFT JOIN orchestrator_prompts p ON p.digest = e.data->>'digest'
WHERE e.type = 'prompt' AND {last e prompt};

CREATE VIEW segue_patches AS
SELECT e.run_id, e.seq, e.step, s.gen, s.task, s.phase, s.build_phase, s.attempt, s.agent, s.model,
       e.data->>'base' AS base, e.data->>'head' AS head, e.data->>'tree' AS tree,
       coalesce({integer e.data files}, 0) AS files, e.data->>'diff' AS diff,
       coalesce({integer e.data cut}, 0) AS cut, {instant e.ts} AS at
FROM orchestrator_events e
{step e}
WHERE e.type = 'patch' AND {last e patch};

-- A call counts when it has ended. Each figure is counted in the index of calls, which has those of a launch by
-- name, in their order; what nobody asks for is not counted.
CREATE VIEW orchestrator_launch_tools AS
SELECT s.run_id, s.key AS step,
       (SELECT count(*) FROM orchestrator_events e
        WHERE e.type = 'agent.tool' AND coalesce(e.data->>'state', '') <> 'started'
          AND e.run_id = s.run_id AND e.step = s.key) AS calls,
       (SELECT count(*) FROM orchestrator_events e
        WHERE e.type = 'agent.tool' AND coalesce(e.data->>'state', '') <> 'started'
          AND e.run_id = s.run_id AND e.step = s.key AND e.data->>'name' = 'Bash') AS bash,
       (SELECT count(*) FROM orchestrator_events e
        WHERE e.type = 'agent.tool' AND coalesce(e.data->>'state', '') <> 'started'
          AND e.run_id = s.run_id AND e.step = s.key
          AND e.data->>'name' IN ('Read', 'Grep', 'Glob', 'LS')) AS reads,
       (SELECT count(*) FROM orchestrator_events e
        WHERE e.type = 'agent.tool' AND coalesce(e.data->>'state', '') <> 'started'
          AND e.run_id = s.run_id AND e.step = s.key
          AND e.data->>'name' IN ('Edit', 'MultiEdit', 'NotebookEdit', 'Write')) AS edits,
       (SELECT count(*) FROM orchestrator_events e
        WHERE e.type = 'agent.tool' AND coalesce(e.data->>'state', '') <> 'started'
          AND e.run_id = s.run_id AND e.step = s.key AND e.data->>'name' IN ('WebSearch', 'WebFetch')) AS web,
       (SELECT CASE WHEN first_edit.seq IS NOT NULL THEN (
                   SELECT count(*) FROM orchestrator_events e
                   WHERE e.type = 'agent.tool' AND coalesce(e.data->>'state', '') <> 'started'
                     AND e.run_id = s.run_id AND e.step = s.key AND e.data->>'name' = 'Read'
                     AND e.seq < first_edit.seq) END
        FROM (SELECT min(e.seq) AS seq FROM orchestrator_events e
              WHERE e.type = 'agent.tool' AND coalesce(e.data->>'state', '') <> 'started'
                AND e.run_id = s.run_id AND e.step = s.key
                AND e.data->>'name' IN ('Edit', 'MultiEdit', 'NotebookEdit', 'Write')) first_edit
       ) AS reads_before_edit
FROM orchestrator_steps s
WHERE s.gen = 1 AND EXISTS (
    SELECT 1 FROM orchestrator_events e
    WHERE e.type = 'agent.tool' AND coalesce(e.data->>'state', '') <> 'started'
      AND e.run_id = s.run_id AND e.step = s.key);

-- What judges, checks and hooks said, as it was stored: not what is concluded from a launch.
CREATE VIEW orchestrator_verdicts AS
SELECT e.run_id, e.seq, e.ts, {instant e.ts} AS at, e.step, e.data->>'task' AS task,
       e.data->>'result' AS result, e.data->>'action' AS action, e.data->>'reason' AS reason,
       e.data->'criteria' AS criteria, e.data->'checks' AS checks, e.data AS parsed_result
FROM orchestrator_events e
WHERE e.type = 'verdict' AND NOT EXISTS (
    SELECT 1 FROM orchestrator_steps s
    WHERE s.run_id = e.run_id AND s.key = e.step
      AND s.phase IN ('plan', 'execute', 'resolve', 'address', 'search', 'independent', 'outline', 'replan', 'merge'));
