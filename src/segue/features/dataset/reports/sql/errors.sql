-- One row per run, kind and signature of an error: how often it occurred there, and its first message.
-- A failed attempt (segue_failed_attempts) without an error of its own counts with the reason of its verdict.
-- Failures that say nothing about the work (usage limits, outages, a stop) do not count.
WITH chosen AS (
    SELECT id FROM orchestrator_runs WHERE true /* filters */
), seen AS (
    SELECT e.run_id, e.seq, e.step, e.data->>'kind' AS kind, e.data->>'failure' AS failure,
           e.data->>'build_phase' AS build_phase, e.data->>'signature' AS signature, e.data->>'message' AS message
    FROM chosen r JOIN orchestrator_events e ON e.run_id = r.id AND e.type = 'error'
), failed AS (
    SELECT s.run_id, s.seq, s.build_phase, s.failure, s.reason AS message
    FROM chosen r JOIN segue_failed_attempts s ON s.run_id = r.id
    LEFT JOIN seen e ON e.run_id = s.run_id AND e.step = s.step AND e.kind <> 'TOOL_ERROR'
    WHERE e.run_id IS NULL
), everything AS (
    SELECT run_id, seq, kind, failure, coalesce(build_phase, '') AS build_phase,
           coalesce(signature, '') AS signature, substr(message, 1, 500) AS message
    FROM seen
    UNION ALL
    SELECT run_id, seq, CASE WHEN failure IS NULL THEN 'VERDICT' ELSE upper(failure) END, failure,
           coalesce(build_phase, ''), '', substr(message, 1, 500)
    FROM failed
), numbered AS (
    SELECT run_id, seq, kind, build_phase, signature, message, count(*) OVER same AS times,
           row_number() OVER (PARTITION BY run_id, kind, build_phase, signature,
                              CASE WHEN signature = '' THEN message END ORDER BY seq) AS place
    FROM everything
    WHERE message IS NOT NULL
      AND coalesce(failure, '') NOT IN
          ('usage_limit', 'rate_limit', 'outage', 'auth', 'interrupted', 'not_started', 'lost')
    WINDOW same AS (PARTITION BY run_id, kind, build_phase, signature,
                    CASE WHEN signature = '' THEN message END)
)
SELECT run_id, seq, kind, build_phase, signature, message, times
FROM numbered
WHERE place = 1
ORDER BY run_id, seq;
