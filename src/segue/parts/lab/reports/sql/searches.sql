-- One row per search that did not fail: the query, the results (`data`), and how the attempt after it
-- ended: with a verdict, or before with a failed attempt (segue_failed_attempts).
WITH chosen AS (
    SELECT id FROM orchestrator_runs WHERE true /* filters */
), searches AS (
    SELECT e.run_id, e.seq, e.data->>'task' AS task, e.data->>'query' AS query, e.data->>'source' AS service, e.data
    FROM chosen r JOIN orchestrator_events e ON e.run_id = r.id
    WHERE e.type = 'search' AND coalesce(e.data->>'failure', '') = ''
)
SELECT q.run_id, q.seq, q.task, q.query, q.service, q.data,
       (SELECT coalesce(s.output->'verdict'->>'result', 'FAIL')
        FROM orchestrator_steps s
        WHERE s.run_id = q.run_id AND s.task = q.task AND s.seq > q.seq
          AND (s.phase = 'verify' AND s.state <> 'started' AND s.output->'failure'->>'kind' IS NULL
               OR s.phase = 'end'
               OR EXISTS (SELECT 1 FROM segue_failed_attempts f WHERE f.run_id = s.run_id AND f.seq = s.seq))
        ORDER BY s.seq LIMIT 1) AS next_result
FROM searches q
ORDER BY q.run_id, q.seq;
