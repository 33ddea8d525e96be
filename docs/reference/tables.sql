SELECT run_id, state, agent, model, tasks, tasks_done, cost_usd, seconds
FROM segue_runs
ORDER BY started_at DESC;

SELECT build_phase, count(*) AS tasks, count(*) FILTER (WHERE failed_attempts > 0) AS failed
FROM segue_tasks
GROUP BY build_phase
ORDER BY build_phase;

SELECT build_phase, count(*) AS tasks, count(*) FILTER (WHERE passed) AS passed_at_once, count(DISTINCT run_id) AS runs
FROM segue_first_attempts
GROUP BY build_phase
ORDER BY build_phase;

SELECT build_phase, phase, reason, count(*) AS times, count(DISTINCT run_id) AS runs
FROM segue_failed_attempts
GROUP BY build_phase, phase, reason
ORDER BY times DESC, reason;

SELECT agent, model, count(*) AS attempts, count(*) FILTER (WHERE result = 'PASS') AS passed,
       sum(input_tokens) AS input_tokens, sum(cost_usd) AS cost_usd, avg(seconds) AS mean_seconds
FROM segue_attempts
WHERE phase = 'execute'
GROUP BY agent, model
ORDER BY agent, model;

SELECT agent, name, count(*) AS calls, count(*) FILTER (WHERE status = 'failure') AS failed
FROM segue_tool_calls
GROUP BY agent, name
ORDER BY agent, name;

SELECT origin, command, count(*) AS times, count(*) FILTER (WHERE exit_code <> 0) AS failed
FROM segue_commands
GROUP BY origin, command
ORDER BY origin, command;

SELECT signature, count(*) AS times, count(DISTINCT run_id) AS runs
FROM segue_errors
GROUP BY signature
ORDER BY times DESC, signature;

SELECT task, attempt, agent, result, action, reason
FROM segue_verdicts
WHERE is_judged
ORDER BY run_id, seq;

SELECT criterion, count(*) AS judged, count(*) FILTER (WHERE met) AS met
FROM segue_criteria
GROUP BY criterion
ORDER BY criterion;

SELECT command, state, count(*) AS times, avg(seconds) AS mean_seconds
FROM segue_checks
GROUP BY command, state
ORDER BY command, state;

SELECT reviewer, rule, count(*) AS found, count(*) FILTER (WHERE is_dismissed) AS dismissed
FROM segue_findings
GROUP BY reviewer, rule
ORDER BY reviewer, rule;

SELECT delivered_action, count(*) AS cases, count(*) FILTER (WHERE recovered) AS recovered
FROM segue_recoveries
WHERE next_result IS NOT NULL
GROUP BY delivered_action
ORDER BY delivered_action;

SELECT t.proof_level, l.origin, count(*) AS bad
FROM segue_labels l JOIN segue_tasks t ON t.run_id = l.run_id AND t.task = l.task
WHERE NOT l.good
GROUP BY t.proof_level, l.origin
ORDER BY t.proof_level, l.origin;

SELECT query, source, hits, failure, next_result
FROM segue_searches
ORDER BY run_id, seq;

SELECT phase, count(*) AS prompts, max(length) AS longest
FROM segue_prompts
GROUP BY phase
ORDER BY phase;

SELECT p.run_id, p.task, p.attempt, p.files, length(p.diff) AS characters, t.proof_level
FROM segue_patches p
JOIN segue_tasks t ON t.run_id = p.run_id AND t.task = p.task
ORDER BY p.run_id, p.seq;
