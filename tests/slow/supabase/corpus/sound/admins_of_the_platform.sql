create table notes (
  id uuid primary key default gen_random_uuid(),
  user_id uuid not null references auth.users on delete cascade,
  body text,
  amount int not null default 0
);
alter table notes enable row level security;
create policy "own" on notes to authenticated using (auth.uid() = user_id) with check (auth.uid() = user_id);
create table admins (user_id uuid primary key references auth.users);
alter table admins enable row level security;
create policy "own" on admins for select to authenticated using (user_id = auth.uid());
create function is_admin() returns boolean language sql stable security definer set search_path = '' as $$
  select exists (select 1 from public.admins where user_id = auth.uid()) $$;
create policy "admins" on notes for select to authenticated using (is_admin());
