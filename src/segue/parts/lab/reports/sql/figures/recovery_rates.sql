-- Per action: the failed attempts after which it was taken, and those after which the next one passed.
SELECT action, count(*) FILTER (WHERE /* counted */) AS cases,
       count(*) FILTER (WHERE /* counted */ AND recovered = 1) AS recovered,
       count(DISTINCT CASE WHEN /* counted */ THEN run_id END) AS runs,
       count(*) FILTER (WHERE delivered = 0) AS not_delivered
FROM (
/* recovery */
) AS attempts
WHERE /* chosen */
GROUP BY action
ORDER BY action;
