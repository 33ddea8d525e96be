-- What the reports ask of a million events: which tools each launch used, in which order.
DROP INDEX orchestrator_events_tools;

CREATE INDEX orchestrator_events_calls ON orchestrator_events (run_id, step, (data->>'name'), seq)
WHERE type = 'agent.tool' AND coalesce(data->>'state', '') <> 'started';
