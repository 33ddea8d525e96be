-- One row per step of a run, in order: time, agent and verdict. A launch that ended well has judged nothing, so
-- it has no result.
WITH chosen AS (
    SELECT id FROM orchestrator_runs WHERE true /* filters */
)
SELECT s.run_id, s.key, s.gen, s.seq, s.task, s.phase, s.attempt, s.agent, s.model, s.build_phase, s.state,
       s.started, s.ended,
       CASE WHEN s.output->'verdict'->>'result' <> 'PASS' OR s.output->'verdict'->'criteria'->0 IS NOT NULL
            THEN s.output->'verdict'->>'result' END AS result,
       s.output->'verdict'->>'action' AS action,
       coalesce(s.output->'failure'->>'message', s.output->'verdict'->>'reason') AS reason
FROM chosen r JOIN orchestrator_steps s ON s.run_id = r.id
ORDER BY s.run_id, s.seq;
