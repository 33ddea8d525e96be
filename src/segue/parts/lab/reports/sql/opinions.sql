-- One row per labelled piece of work and judge, check or level: the label, and what was said of it. Of an attempt
-- that is labelled itself, what was said before the next one began; otherwise what was said last about the task.
WITH chosen AS (
    SELECT id FROM orchestrator_runs WHERE true /* filters */
), labelled AS (
    SELECT l.run_id, l.task, l.step, l.seq AS label, CASE WHEN l.good THEN 1 ELSE 0 END AS good, l.origin, a.seq AS began,
           (SELECT min(n.seq) FROM segue_attempts n
            WHERE n.run_id = l.run_id AND n.task = l.task AND n.seq > a.seq
              AND n.phase IN ('execute', 'resolve', 'address')) AS ended
    FROM segue_labels l
    LEFT JOIN segue_attempts a ON a.run_id = l.run_id AND a.step = l.step AND a.is_current
    WHERE l.run_id IN (SELECT id FROM chosen)
), said AS (
    SELECT v.run_id, v.task, v.seq, 'judge' AS kind, v.agent AS name, v.result
    FROM segue_verdicts v
    WHERE v.is_judged AND v.run_id IN (SELECT run_id FROM labelled)
    UNION ALL
    SELECT c.run_id, c.task, c.seq, 'check', c.command, CASE WHEN c.ok THEN 'PASS' ELSE 'FAIL' END
    FROM segue_checks c
    WHERE c.of_task IS NULL AND c.run_id IN (SELECT run_id FROM labelled)
), numbered AS (
    SELECT l.*, s.kind, s.name, s.result,
           row_number() OVER (PARTITION BY l.run_id, l.label, s.kind, s.name ORDER BY s.seq DESC) AS age
    FROM labelled l JOIN said s ON s.run_id = l.run_id AND s.task = l.task
     AND (l.began IS NULL OR s.seq > l.began) AND (l.ended IS NULL OR s.seq < l.ended)
), opinions AS (
    SELECT run_id, task, coalesce(step, '') AS step, good, origin, kind, coalesce(name, kind) AS name, result,
           CASE WHEN result = 'PASS' THEN 1 ELSE 0 END AS said
    FROM numbered
    WHERE age = 1
    UNION ALL
    SELECT l.run_id, l.task, '', l.good, l.origin, 'level', coalesce(t.proof_level, 'not recorded'), 'PASS', 1
    FROM labelled l JOIN segue_tasks t ON t.run_id = l.run_id AND t.task = l.task
    WHERE l.step IS NULL AND t.state = 'done' AND t.decided_by IS NULL
)
SELECT run_id, task, step, good, origin, kind, name, result, said FROM opinions ORDER BY run_id, task, step, kind, name;
