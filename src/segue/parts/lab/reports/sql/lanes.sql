-- One row per event that begins or ends work in a lane. A stretch goes from `task.started` to the next of its task.
WITH chosen AS (
    SELECT id FROM orchestrator_runs WHERE true /* filters */
)
SELECT e.run_id, e.seq, e.ts, e.type, e.step, e.data->>'task' AS task, e.data
FROM chosen r JOIN orchestrator_events e ON e.run_id = r.id
WHERE e.type IN ('run.started', 'run.resumed', 'run.parked', 'run.ended', 'task.started', 'task.ended', 'task.blocked',
                 'task.merged', 'task.collided', 'step.started', 'step.ended')
ORDER BY e.run_id, e.seq;
