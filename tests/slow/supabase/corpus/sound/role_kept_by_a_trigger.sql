create table orgs (id uuid primary key default gen_random_uuid(), name text not null);
create table profiles (
  id uuid primary key references auth.users on delete cascade,
  org_id uuid references orgs,
  role text not null default 'user',
  full_name text
);
create table invoices (id bigserial primary key, org_id uuid not null references orgs, total int not null);
alter table orgs enable row level security;
alter table profiles enable row level security;
alter table invoices enable row level security;
create policy "own" on profiles for select to authenticated using (id = auth.uid());
create policy "own org" on orgs for select to authenticated
  using (id = (select org_id from profiles where profiles.id = auth.uid()));
create policy "own org" on invoices for select to authenticated
  using (org_id = (select org_id from profiles where profiles.id = auth.uid()));
create function is_admin() returns boolean language sql stable security definer set search_path = '' as $$
  select exists (select 1 from public.profiles where id = auth.uid() and role = 'admin') $$;
create policy "admins" on invoices for select to authenticated using (is_admin());
create policy "change own" on profiles for update to authenticated
  using (id = auth.uid()) with check (id = auth.uid());
create function keep() returns trigger language plpgsql as $$ begin
  if current_user in ('anon', 'authenticated') then new.role := old.role; new.org_id := old.org_id; end if;
  return new; end $$;
create trigger keep before update on profiles for each row execute function keep();
