-- leaks through: public.projects
create table orgs (id uuid primary key default gen_random_uuid(), name text not null);
create table members (
  org_id uuid not null references orgs on delete cascade,
  user_id uuid not null references auth.users on delete cascade,
  role text not null default 'member' check (role in ('member', 'admin', 'owner')),
  primary key (org_id, user_id)
);
create table projects (
  id uuid primary key default gen_random_uuid(),
  org_id uuid not null references orgs on delete cascade,
  title text not null
);
alter table orgs enable row level security;
alter table members enable row level security;
alter table projects enable row level security;
create function in_org(org uuid) returns boolean language sql stable security definer set search_path = '' as $$
  select exists (select 1 from public.members m where m.org_id = org and m.user_id = auth.uid()) $$;
create policy "members read" on orgs for select to authenticated using (in_org(id));
create policy "members read" on members for select to authenticated using (in_org(org_id));
alter table projects add created_by uuid not null default auth.uid() references auth.users;
create policy "read" on projects for select to authenticated using (in_org(org_id) or created_by = auth.uid());
create policy "change" on projects for update to authenticated
  using (created_by = auth.uid()) with check (created_by = auth.uid());
