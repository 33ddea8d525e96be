create table articles (id bigserial primary key, title text not null);
create table bookmarks (
  user_id uuid references auth.users, article_id bigint references articles, primary key (user_id, article_id)
);
alter table articles enable row level security;
alter table bookmarks enable row level security;
create policy "signed in" on articles for select using (auth.role() = 'authenticated');
create policy "own" on bookmarks using (user_id = auth.uid()) with check (user_id = auth.uid());
