-- One row per trial of an experiment: its arm and prompt, and what was planned when it began: how many arms, prompts,
-- trials of each, and looks at the results. The plan is null in runs of older versions.
WITH chosen AS (
    SELECT id, created, state, spec FROM orchestrator_runs WHERE true /* filters */
)
SELECT r.id AS run_id, r.created, r.state, r.spec->'trial'->>'experiment' AS experiment,
       coalesce(r.spec->'trial'->>'arm', '') AS arm,
       coalesce(nullif(r.spec->'trial'->>'prompt', ''), r.spec->>'source') AS source,
       CAST(r.spec->'trial'->>'place' AS integer) AS place, CAST(r.spec->'trial'->>'arms' AS integer) AS arms,
       CAST(r.spec->'trial'->>'prompts' AS integer) AS prompts,
       CAST(r.spec->'trial'->>'trials' AS integer) AS trials, CAST(r.spec->'trial'->>'looks' AS integer) AS looks
FROM chosen r
WHERE r.spec->'trial'->>'experiment' IS NOT NULL
ORDER BY r.created, r.id;
