-- As before, and checks that pass object too where they send work back: for old tests that it changed unasked.
{forget segue_failed_attempts};

CREATE OR REPLACE VIEW segue_failed_attempts AS
SELECT s.run_id, s.seq, s.key AS step, s.gen, s.task, s.phase, s.build_phase, s.attempt, s.agent, s.model,
       s.output->'failure'->>'kind' AS failure,
       coalesce(s.output->'failure'->>'message', s.output->'verdict'->>'reason',
                (SELECT max(e.data->>'reason') FROM orchestrator_events e
                 WHERE e.type = 'verdict' AND e.run_id = s.run_id AND e.step = s.key)) AS reason,
       {instant s.started} AS started_at, {instant s.ended} AS ended_at
FROM orchestrator_steps s
WHERE s.task IS NOT NULL AND (
    s.state = 'failed'
    AND (s.phase IN ('check', 'hooks')
         OR s.phase IN ('plan', 'execute', 'address', 'resolve') AND s.output->'verdict'->>'result' IS NOT NULL
         OR s.phase = 'verify' AND s.output->'verdict'->>'result' IS NOT NULL AND s.output->'failure'->>'kind' IS NULL)
    AND coalesce(s.output->'failure'->>'kind', '') NOT IN
        ('usage_limit', 'rate_limit', 'outage', 'auth', 'interrupted', 'not_started', 'lost')
    AND NOT (s.phase = 'check' AND EXISTS (
        SELECT 1 FROM orchestrator_steps c
        WHERE c.run_id = s.run_id AND c.task = s.task AND c.seq > s.seq
          AND (c.phase = 'contest' AND c.state = 'done' OR c.phase = 'dispute' AND c.state = 'failed')
          AND NOT EXISTS (SELECT 1 FROM orchestrator_steps n
                          WHERE n.run_id = s.run_id AND n.task = s.task AND n.seq > s.seq AND n.seq < c.seq
                            AND n.phase IN ('check', 'resolve', 'end'))))
    OR s.state = 'done' AND s.phase = 'check' AND EXISTS (
        SELECT 1 FROM orchestrator_steps n
        JOIN orchestrator_events e ON e.run_id = n.run_id AND e.seq > s.seq AND e.seq < n.seq
        WHERE n.run_id = s.run_id AND n.task = s.task AND n.phase = 'resolve' AND e.type = 'verdict' AND e.step = s.key
          AND n.seq = (SELECT min(m.seq) FROM orchestrator_steps m
                       WHERE m.run_id = s.run_id AND m.task = s.task AND m.seq > s.seq
                         AND m.phase IN ('check', 'resolve', 'commit', 'hooks', 'verify', 'end'))));

ALTER VIEW segue_failed_attempts SET (security_invoker = true);
