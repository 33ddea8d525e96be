create table notes (
  id uuid primary key default gen_random_uuid(),
  user_id uuid not null references auth.users on delete cascade,
  body text,
  amount int not null default 0
);
alter table notes enable row level security;
create policy "own" on notes to authenticated using (auth.uid() = user_id) with check (auth.uid() = user_id);
create type app_role as enum ('admin', 'moderator', 'user');
create table user_roles (
  id bigserial primary key,
  user_id uuid not null references auth.users,
  role app_role not null,
  unique (user_id, role)
);
alter table user_roles enable row level security;
create policy "own" on user_roles for select to authenticated using (user_id = auth.uid());
create function has_role(_user_id uuid, _role app_role) returns boolean language sql stable security definer
  set search_path = public as $$ select exists (select 1 from user_roles where user_id = _user_id and role = _role) $$;
create policy "admins" on notes for select to authenticated using (has_role(auth.uid(), 'admin'));
