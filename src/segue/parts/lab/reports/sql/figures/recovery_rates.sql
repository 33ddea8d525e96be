-- Per action: the failed attempts after which it was taken, and those after which the next one passed.
SELECT action, count(*) AS cases, sum(recovered) AS recovered, count(DISTINCT run_id) AS runs
FROM (
/* recovery */
) AS attempts
WHERE /* counted */
GROUP BY action
ORDER BY action;
