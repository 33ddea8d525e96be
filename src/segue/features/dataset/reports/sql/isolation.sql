-- One row per session of a run: the sandbox of its agents.
WITH chosen AS (
    SELECT id FROM orchestrator_runs WHERE true /* filters */
)
SELECT e.run_id, e.seq, coalesce(e.data->>'isolation', '') AS isolation
FROM chosen r JOIN orchestrator_events e ON e.run_id = r.id
WHERE e.type IN ('run.started', 'run.resumed')
  -- The same as the others say, for the index of everything but what agents print.
  AND e.type <> 'agent.text' AND e.type <> 'agent.tool' AND e.type <> 'agent.output' AND e.type <> 'agent.raw'
  AND e.type <> 'agent.usage' AND e.type <> 'trace.span'
ORDER BY 1, 2;
