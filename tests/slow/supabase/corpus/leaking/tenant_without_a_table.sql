-- leaks through: public.invoices
create table memberships (
  tenant_id uuid, user_id uuid references auth.users, primary key (tenant_id, user_id)
);
create table invoices (id bigserial primary key, tenant_id uuid not null, total int not null);
alter table memberships enable row level security;
alter table invoices enable row level security;
create policy "own" on memberships for select using (user_id = auth.uid());
create policy "members" on invoices for select using (exists (select 1 from memberships m where m.user_id = auth.uid()));
