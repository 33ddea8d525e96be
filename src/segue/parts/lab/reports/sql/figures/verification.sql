-- Per judge and check: the labelled work of which it said PASS, and how much of either was good. Of several labels of
-- the same work that of the one whose word counts most.
WITH trusted AS (
    SELECT opinions.*, rank() OVER (PARTITION BY run_id, task, step ORDER BY CASE origin WHEN 'person' THEN 0
                                    WHEN 'tests' THEN 1 WHEN 'file' THEN 2 ELSE 3 END) AS place
    FROM (
/* opinions */
    ) AS opinions
)
SELECT kind, name, count(*) AS labels, sum(said) AS passed, sum(said * good) AS passed_and_good, sum(good) AS good
FROM trusted
WHERE place = 1 AND origin <> 'git' AND kind <> 'level'
GROUP BY kind, name
ORDER BY kind, name;
