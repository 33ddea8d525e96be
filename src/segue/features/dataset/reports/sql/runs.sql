-- One row per run: source, agent, state, experiment and arm, and the model that was asked for or that the agent reported.
-- `variant` tells trials apart that were made with other settings under the same name.
WITH chosen AS (
    SELECT id, created, state, spec FROM orchestrator_runs WHERE true /* filters */
), reported AS (
    SELECT s.run_id, max(s.output->>'model') AS model
    FROM chosen r JOIN orchestrator_steps s ON s.run_id = r.id
    WHERE r.spec->>'model' IS NULL
    GROUP BY s.run_id
), named AS (
    SELECT r.id AS run_id, r.created, r.state, r.spec->>'source' AS source, r.spec->>'agent' AS agent,
           coalesce(r.spec->>'model', m.model, '') AS model,
           coalesce(r.spec->'trial'->>'experiment', '') AS experiment, coalesce(r.spec->'trial'->>'arm', '') AS arm,
           coalesce(r.spec->'trial'->>'digest', '') AS digest
    FROM chosen r LEFT JOIN reported m ON m.run_id = r.id
)
SELECT run_id, created, state, source, agent, model, experiment, arm,
       CASE WHEN min(digest) OVER same <> max(digest) OVER same THEN digest ELSE '' END AS variant
FROM named
WINDOW same AS (PARTITION BY experiment, arm, agent, model)
ORDER BY created, run_id;
