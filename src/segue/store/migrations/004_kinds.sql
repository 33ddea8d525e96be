-- What a run is about, and a quick way to the events that its view is computed from.
ALTER TABLE orchestrator_runs ADD COLUMN kind text;

UPDATE orchestrator_runs SET kind = CASE spec->>'source_kind'
    WHEN 'planfile' THEN 'plan'
    WHEN 'speckit' THEN 'feature'
    WHEN 'prompt' THEN 'build'
    WHEN 'bridge' THEN 'conversation'
    WHEN 'bridge-webhooks' THEN 'inbox'
    WHEN 'provider' THEN 'model_call'
    ELSE 'tasks' END;

-- What agents say by the thousand is left out; a query uses the index when it repeats these conditions.
CREATE INDEX orchestrator_events_view ON orchestrator_events (run_id, seq)
WHERE type <> 'agent.text' AND type <> 'agent.tool' AND type <> 'agent.output' AND type <> 'agent.raw'
  AND type <> 'agent.usage' AND type <> 'trace.span';
