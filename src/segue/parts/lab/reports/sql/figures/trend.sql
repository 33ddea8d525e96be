-- Per period: the runs that passed, and what a run cost on average.
/* outcomes */, periods AS (
    SELECT passed, cost_usd, /* period */ AS period FROM outcomes
)
SELECT period, count(*) AS runs, sum(passed) AS passed, count(cost_usd) AS priced, avg(cost_usd) AS cost_usd
FROM periods
GROUP BY period
ORDER BY period;
