-- Per agent and model, or arm: the runs that passed, and what a run cost on average.
/* outcomes */
SELECT setting, count(*) AS runs, sum(passed) AS passed, count(cost_usd) AS priced, avg(cost_usd) AS cost_usd
FROM outcomes
GROUP BY setting
ORDER BY setting;
