-- One row per search that did not fail: the query, the results (`data`), and how the attempt after it ended.
WITH chosen AS (
    SELECT id FROM orchestrator_runs WHERE true /* filters */
)
SELECT q.run_id, q.seq, q.task, q.query, q.source AS service, e.data, q.next_result
FROM segue_searches q JOIN orchestrator_events e ON e.run_id = q.run_id AND e.seq = q.seq
WHERE q.run_id IN (SELECT id FROM chosen) AND q.delivered
ORDER BY q.run_id, q.seq;
