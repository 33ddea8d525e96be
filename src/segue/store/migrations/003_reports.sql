-- What the reports ask of a million events: which tools each launch used, and in which order.
DROP INDEX orchestrator_events_tools;

CREATE INDEX orchestrator_events_calls ON orchestrator_events (run_id, step, (data->>'name'), seq)
WHERE type = 'agent.tool' AND coalesce(data->>'state', '') <> 'started';

-- A call counts when it has ended. The index above serves only who names its very expressions.
CREATE VIEW orchestrator_launch_tools AS
SELECT c.run_id, c.step, c.calls, c.bash, c.reads, c.edits, c.web,
       CASE WHEN c.first_edit IS NOT NULL THEN (
           SELECT count(*) FROM orchestrator_events e
           WHERE e.type = 'agent.tool' AND coalesce(e.data->>'state', '') <> 'started'
             AND e.run_id = c.run_id AND e.step = c.step AND e.data->>'name' = 'Read' AND e.seq < c.first_edit
       ) END AS reads_before_edit
FROM (
    SELECT e.run_id, e.step, count(*) AS calls,
           count(CASE WHEN e.data->>'name' = 'Bash' THEN 1 END) AS bash,
           count(CASE WHEN e.data->>'name' IN ('Read', 'Grep', 'Glob', 'LS') THEN 1 END) AS reads,
           count(CASE WHEN e.data->>'name' IN ('Edit', 'MultiEdit', 'NotebookEdit', 'Write') THEN 1 END) AS edits,
           count(CASE WHEN e.data->>'name' IN ('WebSearch', 'WebFetch') THEN 1 END) AS web,
           min(CASE WHEN e.data->>'name' IN ('Edit', 'MultiEdit', 'NotebookEdit', 'Write') THEN e.seq END)
               AS first_edit
    FROM orchestrator_events e
    WHERE e.type = 'agent.tool' AND coalesce(e.data->>'state', '') <> 'started'
    GROUP BY e.run_id, e.step
) c;

ALTER VIEW orchestrator_launch_tools SET (security_invoker = true);
