create table groups (id bigserial primary key, name text not null);
create table group_members (
  group_id bigint references groups, user_id uuid references auth.users, primary key (group_id, user_id)
);
alter table groups enable row level security;
alter table group_members enable row level security;
create policy "all" on groups for select using (true);
create policy "all" on group_members for select using (true);
create policy "join" on group_members for insert to authenticated with check (user_id = auth.uid());
create policy "leave" on group_members for delete to authenticated using (user_id = auth.uid());
create function name_is_free(wanted text) returns boolean language sql stable security definer set search_path = '' as $$
  select not exists (select 1 from public.groups where name = wanted) $$;
