-- Per action: the failed verdicts after which it was taken, and those whose next verdict was PASS.
SELECT action, count(*) AS cases, sum(recovered) AS recovered, count(DISTINCT run_id) AS runs
FROM (
/* recovery */
) AS attempts
WHERE /* counted */
GROUP BY action
ORDER BY action;
