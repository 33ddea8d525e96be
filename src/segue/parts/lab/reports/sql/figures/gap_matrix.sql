-- Per build phase, and agent and model or arm: the tasks whose first attempt passed.
/* settings */
SELECT coalesce(f.build_phase, '(none)') AS build_phase, s.setting, count(*) AS cases,
       count(*) FILTER (WHERE f.passed) AS passed,
       count(DISTINCT f.run_id) AS runs
FROM segue_first_attempts f JOIN settings s ON s.run_id = f.run_id
GROUP BY coalesce(f.build_phase, '(none)'), s.setting
ORDER BY 1, 2;
