-- What a person accepted keeps the level that was measured: who accepted it is in decided_by, as long as that counts.
DROP VIEW segue_tasks;

CREATE VIEW segue_tasks AS
SELECT t.run_id, t.task, b.data->>'title' AS title, coalesce(b.data->>'kind', 'build') AS kind,
       (SELECT max(s.build_phase) FROM orchestrator_steps s WHERE s.run_id = t.run_id AND s.task = t.task)
           AS build_phase,
       CASE WHEN m.seq > coalesce(e.seq, 0) AND m.seq > t.last_start THEN
                CASE WHEN coalesce({flag m.data skipped}, false) THEN 'skipped'
                     WHEN {flag m.data done} THEN 'done' ELSE 'pending' END
            WHEN e.seq IS NULL OR e.seq < t.last_start THEN 'open'
            WHEN coalesce({flag e.data skipped}, false) THEN 'skipped'
            WHEN {flag e.data done} THEN 'done'
            WHEN coalesce({flag e.data replanned}, false) THEN 'replanned'
            ELSE 'needs_human' END AS state,
       e.data->>'reason' AS reason,
       CASE WHEN m.seq > coalesce(e.seq, 0) AND m.seq > t.last_start THEN
                CASE WHEN {flag m.data done} AND NOT coalesce({flag m.data skipped}, false) THEN
                    coalesce(CASE WHEN e.seq > t.last_start THEN e.data->'proof'->>'level' END, 'changed') END
            WHEN e.seq > t.last_start AND {flag e.data done} AND NOT coalesce({flag e.data skipped}, false)
            THEN e.data->'proof'->>'level' END AS proof_level,
       e.data->'proof'->'reasons' AS proof_reasons,
       CASE WHEN m.seq > coalesce(e.seq, 0) AND m.seq > t.last_start THEN m.data->>'by' END AS decided_by,
       (SELECT v.data->>'result' FROM orchestrator_events v
        WHERE v.type = 'verdict' AND v.run_id = t.run_id AND v.data->>'task' = t.task
          AND (v.step LIKE '%/verify/%' OR v.step LIKE '%/verify')
        ORDER BY v.seq LIMIT 1) AS first_verdict,
       (SELECT count(*) FROM segue_attempts a WHERE a.run_id = t.run_id AND a.task = t.task) AS attempts,
       (SELECT sum(a.cost_usd) FROM segue_attempts a WHERE a.run_id = t.run_id AND a.task = t.task) AS cost_usd,
       e.data->>'commit' AS commit_id, e.data->>'branch' AS branch,
       coalesce({integer e.data remaining}, 0) AS findings_open,
       CAST(e.ts - f.ts AS double precision) / 1000 AS seconds,
       {instant f.ts} AS started_at, {instant e.ts} AS ended_at
FROM (
    SELECT s.run_id, s.data->>'task' AS task, min(s.seq) AS first_start, max(s.seq) AS last_start
    FROM orchestrator_events s WHERE s.type = 'task.started' GROUP BY s.run_id, s.data->>'task'
) t
JOIN orchestrator_events f ON f.run_id = t.run_id AND f.seq = t.first_start
JOIN orchestrator_events b ON b.run_id = t.run_id AND b.seq = t.last_start
LEFT JOIN orchestrator_events e ON e.run_id = t.run_id AND e.seq = (
    SELECT max(x.seq) FROM orchestrator_events x
    WHERE x.type = 'task.ended' AND x.run_id = t.run_id AND x.data->>'task' = t.task)
LEFT JOIN orchestrator_events m ON m.run_id = t.run_id AND m.seq = (
    SELECT max(x.seq) FROM orchestrator_events x
    WHERE x.type = 'task.marked' AND x.run_id = t.run_id AND x.data->>'task' = t.task
      AND x.data->>'by' IS NOT NULL);

ALTER VIEW segue_tasks SET (security_invoker = true);
