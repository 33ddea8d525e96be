-- One row per task of a run that was judged or checked, or whose agent failed: whether the first attempt passed,
-- before any fix. Failures that say nothing about the work (usage limits, outages, a stop) do not count.
WITH chosen AS (
    SELECT id FROM orchestrator_runs WHERE true /* filters */
), steps AS (
    SELECT s.run_id, s.task, s.build_phase, s.phase, s.state, s.seq,
           CASE WHEN s.phase = 'verify' THEN s.output->'verdict'->>'result' END AS result,
           row_number() OVER (PARTITION BY s.run_id, s.task, s.phase ORDER BY s.seq) AS place
    FROM chosen r JOIN orchestrator_steps s ON s.run_id = r.id
    WHERE s.task IS NOT NULL AND s.state <> 'started'
      AND (s.phase IN ('check', 'resolve')
           OR s.phase = 'verify' AND s.output->'failure'->>'kind' IS NULL
           OR s.phase = 'execute' AND s.state = 'failed' AND coalesce(s.output->'failure'->>'kind', '') NOT IN
              ('usage_limit', 'rate_limit', 'outage', 'auth', 'interrupted', 'not_started', 'lost'))
), firsts AS (
    SELECT run_id, task, max(build_phase) AS build_phase,
           max(CASE WHEN phase = 'verify' THEN seq END) AS verified,
           max(CASE WHEN phase = 'verify' THEN result END) AS result,
           max(CASE WHEN phase = 'check' THEN seq END) AS checked,
           max(CASE WHEN phase = 'check' THEN state END) AS state,
           min(CASE WHEN phase IN ('resolve', 'execute') THEN seq END) AS failed
    FROM steps
    WHERE place = 1
    GROUP BY run_id, task
)
SELECT run_id, task, build_phase,
       CASE WHEN failed IS NOT NULL AND (coalesce(verified, checked) IS NULL OR failed < coalesce(verified, checked))
            THEN 0
            WHEN verified IS NOT NULL THEN CASE WHEN result = 'PASS' THEN 1 ELSE 0 END
            WHEN state = 'done' THEN 1 ELSE 0 END AS passed
FROM firsts
ORDER BY run_id, task;
