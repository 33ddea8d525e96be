-- One row per launch: how often its agent used which tools, and how much it read before it first edited.
WITH chosen AS (
    SELECT id FROM orchestrator_runs WHERE true /* filters */
), calls AS (
    SELECT e.run_id, e.step, count(*) AS calls,
           count(CASE WHEN e.name = 'Bash' THEN 1 END) AS bash,
           count(CASE WHEN e.name IN ('Read', 'Grep', 'Glob', 'LS') THEN 1 END) AS reads,
           count(CASE WHEN e.name IN ('Edit', 'MultiEdit', 'NotebookEdit', 'Write') THEN 1 END) AS edits,
           count(CASE WHEN e.name IN ('WebSearch', 'WebFetch') THEN 1 END) AS web,
           min(CASE WHEN e.name IN ('Edit', 'MultiEdit', 'NotebookEdit', 'Write') THEN e.seq END) AS first_edit
    FROM chosen r JOIN orchestrator_tool_events e ON e.run_id = r.id
    WHERE coalesce(e.state, '') <> 'started'
    GROUP BY e.run_id, e.step
)
SELECT c.run_id, c.step, c.calls, c.bash, c.reads, c.edits, c.web,
       CASE WHEN c.first_edit IS NOT NULL THEN (
           SELECT count(*) FROM orchestrator_tool_events e
           WHERE e.run_id = c.run_id AND e.step = c.step AND coalesce(e.state, '') <> 'started'
             AND e.name = 'Read' AND e.seq < c.first_edit) END AS reads_before_edit
FROM calls c
ORDER BY c.run_id, c.step;
