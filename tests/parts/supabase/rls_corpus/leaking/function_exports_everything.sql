-- leaks through: export_all
create table notes (
  id uuid primary key default gen_random_uuid(),
  user_id uuid not null references auth.users on delete cascade,
  body text,
  amount int not null default 0
);
alter table notes enable row level security;
create policy "own" on notes to authenticated using (auth.uid() = user_id) with check (auth.uid() = user_id);
create function export_all() returns json language sql stable security definer
  set search_path = '' as $$ select json_agg(n) from public.notes n $$;
