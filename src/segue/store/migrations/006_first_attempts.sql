-- Whether the first attempt at each task passed, before any fix: the report's matrix of gaps, as a flat table.
-- Failures that say nothing about the work (usage limits, outages, a stop) do not count.
CREATE VIEW segue_first_attempts AS
SELECT t.run_id, t.task, t.build_phase,
       CASE WHEN t.failed IS NOT NULL
             AND (coalesce(t.verified, t.checked) IS NULL OR t.failed < coalesce(t.verified, t.checked)) THEN false
            WHEN t.verified IS NOT NULL THEN coalesce(v.output->'verdict'->>'result', '') = 'PASS'
            ELSE coalesce(c.state, '') = 'done' END AS passed
FROM (
    SELECT s.run_id, s.task, max(s.build_phase) AS build_phase,
           min(CASE WHEN s.phase = 'verify' THEN s.seq END) AS verified,
           min(CASE WHEN s.phase = 'check' THEN s.seq END) AS checked,
           min(CASE WHEN s.phase IN ('resolve', 'execute') THEN s.seq END) AS failed
    FROM orchestrator_steps s
    WHERE s.task IS NOT NULL AND s.state <> 'started'
      AND (s.phase IN ('check', 'resolve')
           OR s.phase = 'verify' AND s.output->'failure'->>'kind' IS NULL
           OR s.phase = 'execute' AND s.state = 'failed' AND coalesce(s.output->'failure'->>'kind', '') NOT IN
              ('usage_limit', 'rate_limit', 'outage', 'auth', 'interrupted', 'not_started', 'lost'))
    GROUP BY s.run_id, s.task
) t
LEFT JOIN orchestrator_steps v ON v.run_id = t.run_id AND v.task = t.task AND v.seq = t.verified AND v.phase = 'verify'
LEFT JOIN orchestrator_steps c ON c.run_id = t.run_id AND c.task = t.task AND c.seq = t.checked AND c.phase = 'check';

ALTER VIEW segue_first_attempts SET (security_invoker = true);
