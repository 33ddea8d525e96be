-- One row per run: source, agent, state, and what it used. What an agent does not report is null.
WITH chosen AS (
    SELECT id, created, state, spec FROM orchestrator_runs WHERE true /* filters */
), work AS (
    SELECT s.run_id, max(s.output->>'model') AS model,
           count(CASE WHEN s.phase IN ('execute', 'address', 'resolve') THEN 1 END) AS launches,
           sum(CASE WHEN s.phase <> 'sleep' THEN s.ended - s.started END) / 1000.0 AS seconds,
           sum(CAST(s.output->'usage'->>'input_tokens' AS bigint)
               + CAST(s.output->'usage'->>'output_tokens' AS bigint)) AS tokens,
           sum(CAST(s.output->'usage'->>'cost_usd' AS double precision)) AS cost_usd
    FROM chosen r JOIN orchestrator_steps s ON s.run_id = r.id
    GROUP BY s.run_id
)
SELECT r.id AS run_id, r.created, r.state, r.spec->>'source_kind' AS source_kind, r.spec->>'source' AS source,
       r.spec->>'agent' AS agent, coalesce(r.spec->>'model', w.model, '') AS model,
       coalesce(w.launches, 0) AS launches, w.seconds, nullif(w.tokens, 0) AS tokens,
       nullif(w.cost_usd, 0) AS cost_usd
FROM chosen r LEFT JOIN work w ON w.run_id = r.id
ORDER BY r.created, r.id;
