-- One row per step of a run, in order: time, agent and verdict.
WITH chosen AS (
    SELECT id FROM orchestrator_runs WHERE true /* filters */
)
SELECT s.run_id, s.key, s.gen, s.seq, s.task, s.phase, s.attempt, s.agent, s.model, s.build_phase, s.state,
       s.started, s.ended,
       s.output->'verdict'->>'result' AS result, s.output->'verdict'->>'action' AS action,
       coalesce(s.output->'failure'->>'message', s.output->'verdict'->>'reason') AS reason
FROM chosen r JOIN orchestrator_steps s ON s.run_id = r.id
ORDER BY s.run_id, s.seq;
