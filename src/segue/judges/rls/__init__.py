"""The row level security check: whether one user of a Supabase project can reach another's rows."""
