-- What the reports ask of a million events, answered from indexes.
DROP INDEX orchestrator_events_facts;

CREATE INDEX orchestrator_events_facts ON orchestrator_events (type, run_id, seq)
WHERE type = 'error' OR type = 'verdict' OR type = 'check' OR type = 'search' OR type = 'diagnostic'
   OR type = 'plan.revised' OR type = 'patch' OR type = 'prompt' OR type = 'task.started'
   OR type = 'task.ended' OR type = 'task.marked' OR type = 'run.resumed' OR type = 'run.parked'
   OR type = 'run.ended';

-- Where each step began, was given its prompt, and what its agent reported at the end.
CREATE INDEX orchestrator_events_launches ON orchestrator_events (run_id, step, seq, type)
WHERE type = 'step.started' OR type = 'prompt' OR type = 'agent.ended';

-- Of most steps only this is asked; what they printed is long.
DROP INDEX orchestrator_steps_task;

CREATE INDEX orchestrator_steps_task ON orchestrator_steps (run_id, task, seq, phase, state, build_phase);

DROP VIEW orchestrator_launch_tools;

-- A call counts when it has ended. Each figure is counted in the index of calls, which has those of a launch by
-- name, in their order; what nobody asks for is not counted.
CREATE VIEW orchestrator_launch_tools AS
SELECT s.run_id, s.key AS step,
       (SELECT count(*) FROM orchestrator_events e
        WHERE e.type = 'agent.tool' AND coalesce(e.data->>'state', '') <> 'started'
          AND e.run_id = s.run_id AND e.step = s.key) AS calls,
       (SELECT count(*) FROM orchestrator_events e
        WHERE e.type = 'agent.tool' AND coalesce(e.data->>'state', '') <> 'started'
          AND e.run_id = s.run_id AND e.step = s.key AND e.data->>'name' = 'Bash') AS bash,
       (SELECT count(*) FROM orchestrator_events e
        WHERE e.type = 'agent.tool' AND coalesce(e.data->>'state', '') <> 'started'
          AND e.run_id = s.run_id AND e.step = s.key
          AND e.data->>'name' IN ('Read', 'Grep', 'Glob', 'LS')) AS reads,
       (SELECT count(*) FROM orchestrator_events e
        WHERE e.type = 'agent.tool' AND coalesce(e.data->>'state', '') <> 'started'
          AND e.run_id = s.run_id AND e.step = s.key
          AND e.data->>'name' IN ('Edit', 'MultiEdit', 'NotebookEdit', 'Write')) AS edits,
       (SELECT count(*) FROM orchestrator_events e
        WHERE e.type = 'agent.tool' AND coalesce(e.data->>'state', '') <> 'started'
          AND e.run_id = s.run_id AND e.step = s.key AND e.data->>'name' IN ('WebSearch', 'WebFetch')) AS web,
       (SELECT CASE WHEN first_edit.seq IS NOT NULL THEN (
                   SELECT count(*) FROM orchestrator_events e
                   WHERE e.type = 'agent.tool' AND coalesce(e.data->>'state', '') <> 'started'
                     AND e.run_id = s.run_id AND e.step = s.key AND e.data->>'name' = 'Read'
                     AND e.seq < first_edit.seq) END
        FROM (SELECT min(e.seq) AS seq FROM orchestrator_events e
              WHERE e.type = 'agent.tool' AND coalesce(e.data->>'state', '') <> 'started'
                AND e.run_id = s.run_id AND e.step = s.key
                AND e.data->>'name' IN ('Edit', 'MultiEdit', 'NotebookEdit', 'Write')) first_edit
       ) AS reads_before_edit
FROM orchestrator_steps s
WHERE s.gen = 1 AND EXISTS (
    SELECT 1 FROM orchestrator_events e
    WHERE e.type = 'agent.tool' AND coalesce(e.data->>'state', '') <> 'started'
      AND e.run_id = s.run_id AND e.step = s.key);

ALTER VIEW orchestrator_launch_tools SET (security_invoker = true);
