WITH chosen AS (
    SELECT id, created FROM orchestrator_runs WHERE true /* filters */
), settings AS (
    -- What a run was made with: its arm, or its agent and the model that was asked for or reported.
    SELECT r.run_id, c.created, r.state, nullif(r.cost_usd, 0) AS cost_usd,
           CASE WHEN r.arm IS NOT NULL THEN r.experiment || '/' || r.arm
                ELSE r.agent || coalesce(' ' || nullif(coalesce(r.model, (
                         SELECT max(a.model_reported) FROM segue_attempts a WHERE a.run_id = r.run_id)), ''), '')
                END AS setting
    FROM chosen c JOIN segue_runs r ON r.run_id = c.id
)
