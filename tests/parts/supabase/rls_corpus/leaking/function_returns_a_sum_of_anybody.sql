-- leaks through: balance
create table notes (
  id uuid primary key default gen_random_uuid(),
  user_id uuid not null references auth.users on delete cascade,
  body text,
  amount int not null default 0
);
alter table notes enable row level security;
create policy "own" on notes to authenticated using (auth.uid() = user_id) with check (auth.uid() = user_id);
create function balance(who uuid) returns int language sql stable security definer
  set search_path = '' as $$ select sum(amount)::int from public.notes where user_id = who $$;
