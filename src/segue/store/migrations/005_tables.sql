-- Flat tables for people who ask in SQL: real columns, the same names and types of things on both databases.
-- {integer …}, {real …} and {flag …} read JSON or are null; {each c …} are the entries of a JSON list;
-- {step e} joins the step that an event belongs to, in the generation that was current then; {last e patch} is
-- true for the last event of its type in that step.

DROP INDEX orchestrator_events_facts;

CREATE INDEX orchestrator_events_facts ON orchestrator_events (type, run_id, seq)
WHERE type = 'error' OR type = 'verdict' OR type = 'check' OR type = 'search' OR type = 'diagnostic'
   OR type = 'plan.revised' OR type = 'patch' OR type = 'prompt' OR type = 'task.started'
   OR type = 'task.ended' OR type = 'task.marked';

-- When a call of a tool began, for the event that says it has ended.
CREATE INDEX orchestrator_events_begun ON orchestrator_events (run_id, step, seq)
WHERE type = 'agent.tool' AND data->>'state' = 'started';

CREATE INDEX orchestrator_steps_task ON orchestrator_steps (run_id, task, seq);

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
       CAST(r.updated - r.created AS double precision) / 1000 AS seconds,
       {instant r.created} AS started_at, {instant r.updated} AS updated_at
FROM orchestrator_runs r;

-- A person's decision counts when it came after everything else.
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
       CASE WHEN m.seq > coalesce(e.seq, 0) AND {flag m.data done} THEN 'accepted'
            ELSE e.data->'proof'->>'level' END AS proof_level,
       e.data->'proof'->'reasons' AS proof_reasons,
       m.data->>'by' AS decided_by,
       (SELECT v.data->>'result' FROM orchestrator_events v
        WHERE v.type = 'verdict' AND v.run_id = t.run_id AND v.data->>'task' = t.task
          AND (v.step LIKE '%/verify/%' OR v.step LIKE '%/verify')
        ORDER BY v.seq LIMIT 1) AS first_verdict,
       (SELECT count(*) FROM segue_attempts a WHERE a.run_id = t.run_id AND a.task = t.task) AS attempts,
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
       nullif(f.value->>'suggestion', '') AS suggestion, false AS is_dismissed, NULL AS dismissed_because,
       {instant s.ended} AS at
FROM orchestrator_steps s
CROSS JOIN {each f s.output findings}
WHERE s.phase = 'review'
UNION ALL
SELECT s.run_id, s.seq, {position f} AS n, s.key AS step, s.gen, s.task, s.attempt AS round, s.agent AS reviewer,
       f.value->>'id' AS finding, f.value->>'file' AS file, {integer f.value line} AS line,
       f.value->>'severity' AS severity, f.value->>'rule' AS rule, f.value->>'message' AS message,
       nullif(f.value->>'suggestion', '') AS suggestion, true AS is_dismissed,
       f.value->>'reason' AS dismissed_because, {instant s.ended} AS at
FROM orchestrator_steps s
CROSS JOIN {each f s.output dismissed}
WHERE s.phase = 'review';

-- What was done about a failed verdict, by the steps between it and the next one of the task. A verdict of one
-- judge among several is followed by the panel's, and so by nothing.
CREATE VIEW segue_recoveries AS
SELECT d.run_id, d.seq, d.step, d.task, d.build_phase, d.result, d.asked, d.action, d.choices > 0 AS by_chance,
       CASE WHEN d.action IN ('RETRY', 'SKIP') THEN true ELSE d.succeeded > 0 END AS delivered,
       CASE WHEN d.action IN ('RETRY', 'SKIP') OR d.succeeded > 0 THEN d.action
            WHEN d.resolves > 0 THEN 'RETRY' END AS delivered_action,
       CASE WHEN d.action NOT IN ('RETRY', 'SKIP') AND d.succeeded = 0 THEN d.problem END AS problem,
       d.next_result, d.next_result = 'PASS' AS recovered, {instant d.ts} AS at
FROM (
    SELECT v.run_id, v.seq, v.ts, v.step, v.data->>'task' AS task, v.data->>'result' AS result,
           v.data->>'action' AS asked, max(s.build_phase) AS build_phase,
           CASE WHEN count(CASE WHEN s.phase = 'search' THEN 1 END) > 0 THEN 'WEB_SEARCH'
                WHEN count(CASE WHEN s.phase = 'diagnostic' THEN 1 END) > 0 THEN 'RUN_DIAGNOSTIC'
                WHEN count(CASE WHEN s.phase = 'replan' THEN 1 END) > 0 THEN 'MODIFY_PLAN'
                WHEN count(CASE WHEN s.phase = 'resolve' THEN 1 END) > 0 THEN 'RETRY'
                ELSE 'SKIP' END AS action,
           count(CASE WHEN s.phase IN ('search', 'diagnostic', 'replan') AND s.state = 'done' THEN 1 END)
               AS succeeded,
           count(CASE WHEN s.phase = 'resolve' THEN 1 END) AS resolves,
           max(CASE WHEN s.phase IN ('search', 'diagnostic', 'replan') AND s.state = 'failed'
                    THEN coalesce(nullif(s.output->>'search_failure', ''), nullif(s.output->>'reason', ''),
                                  s.output->'failure'->>'message', s.output->'verdict'->>'reason') END) AS problem,
           n.data->>'result' AS next_result,
           (SELECT count(*) FROM orchestrator_steps c
            WHERE c.run_id = v.run_id AND c.task = v.data->>'task' AND c.phase = 'choice' AND c.seq > v.seq
              AND (n.seq IS NULL OR c.seq < n.seq)) AS choices
    FROM orchestrator_events v
    LEFT JOIN orchestrator_events n ON n.run_id = v.run_id AND n.seq = (
        SELECT min(x.seq) FROM orchestrator_events x
        WHERE x.type = 'verdict' AND x.run_id = v.run_id AND x.seq > v.seq
          AND x.data->>'task' = v.data->>'task' AND (x.step LIKE '%/verify/%' OR x.step LIKE '%/verify'))
    JOIN orchestrator_steps s ON s.run_id = v.run_id AND s.task = v.data->>'task' AND s.seq > v.seq
        AND (n.seq IS NULL OR s.seq < n.seq)
        AND (s.phase IN ('search', 'diagnostic', 'replan', 'resolve')
             OR (s.phase = 'end' AND {flag s.output skipped}))
    WHERE v.type = 'verdict' AND (v.step LIKE '%/verify/%' OR v.step LIKE '%/verify')
      AND v.data->>'result' <> 'PASS'
    GROUP BY v.run_id, v.seq, v.ts, v.step, v.data, n.seq, n.data
) d;

CREATE VIEW segue_searches AS
SELECT e.run_id, e.seq, e.step, s.gen, e.data->>'task' AS task, e.data->>'build_phase' AS build_phase,
       e.data->>'query' AS query, e.data->>'source' AS source, coalesce({length e.data results}, 0) AS hits,
       e.data->'results' AS results, nullif(e.data->>'failure', '') AS failure,
       coalesce(e.data->>'failure', '') = '' AS delivered,
       (SELECT n.data->>'result' FROM orchestrator_events n
        WHERE n.type = 'verdict' AND n.run_id = e.run_id AND n.seq > e.seq
          AND n.data->>'task' = e.data->>'task' AND (n.step LIKE '%/verify/%' OR n.step LIKE '%/verify')
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

ALTER VIEW segue_attempts SET (security_invoker = true);

ALTER VIEW segue_runs SET (security_invoker = true);

ALTER VIEW segue_tasks SET (security_invoker = true);

ALTER VIEW segue_tool_calls SET (security_invoker = true);

ALTER VIEW segue_commands SET (security_invoker = true);

ALTER VIEW segue_errors SET (security_invoker = true);

ALTER VIEW segue_verdicts SET (security_invoker = true);

ALTER VIEW segue_criteria SET (security_invoker = true);

ALTER VIEW segue_checks SET (security_invoker = true);

ALTER VIEW segue_findings SET (security_invoker = true);

ALTER VIEW segue_recoveries SET (security_invoker = true);

ALTER VIEW segue_searches SET (security_invoker = true);

ALTER VIEW segue_prompts SET (security_invoker = true);

ALTER VIEW segue_patches SET (security_invoker = true);
