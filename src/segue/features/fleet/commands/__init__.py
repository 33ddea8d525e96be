"""Commands for fleets: many machines that share one Postgres."""
