-- leaks through: rows_of
create table notes (
  id uuid primary key default gen_random_uuid(),
  user_id uuid not null references auth.users on delete cascade,
  body text,
  amount int not null default 0
);
alter table notes enable row level security;
create policy "own" on notes to authenticated using (auth.uid() = user_id) with check (auth.uid() = user_id);
create function rows_of(table_name text) returns setof json language plpgsql security definer set search_path = '' as $$
  begin return query execute format('select row_to_json(t) from public.%I t', table_name); end $$;
