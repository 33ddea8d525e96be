create table posts (
  id bigserial primary key, user_id uuid not null references auth.users, body text not null
);
create table comments (
  id bigserial primary key,
  post_id bigint not null references posts,
  user_id uuid not null references auth.users,
  body text not null
);
alter table posts enable row level security;
alter table comments enable row level security;
create policy "all" on posts for select using (true);
create policy "own" on posts for insert with check (user_id = auth.uid());
create policy "all" on comments for select using (true);
create policy "own" on comments for insert with check (user_id = auth.uid());
