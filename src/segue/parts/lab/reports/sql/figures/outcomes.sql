/* settings */, outcomes AS (
    -- Passed: the run is done, and no task of it was skipped or accepted by a person.
    SELECT r.run_id, r.created, r.cost_usd, r.setting,
           CASE WHEN r.state = 'done' AND NOT EXISTS (
                    SELECT 1 FROM segue_tasks t
                    WHERE t.run_id = r.run_id
                      AND (t.state IN ('skipped', 'needs_human', 'pending') OR t.decided_by IS NOT NULL))
                THEN 1 ELSE 0 END AS passed
    FROM settings r
    WHERE r.state IN ('done', 'failed', 'needs_human')
)
