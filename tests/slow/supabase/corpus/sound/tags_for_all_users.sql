create table notes (
  id uuid primary key default gen_random_uuid(),
  user_id uuid not null references auth.users on delete cascade,
  body text,
  amount int not null default 0
);
alter table notes enable row level security;
create policy "own" on notes to authenticated using (auth.uid() = user_id) with check (auth.uid() = user_id);
create table tags (id bigserial primary key, label text not null unique);
create table note_tags (note_id uuid references notes, tag_id bigint references tags, primary key (note_id, tag_id));
alter table tags enable row level security;
alter table note_tags enable row level security;
create policy "all" on tags for select to authenticated using (auth.uid() is not null);
create policy "own" on note_tags to authenticated
  using (exists (select 1 from notes n where n.id = note_id and n.user_id = auth.uid()))
  with check (exists (select 1 from notes n where n.id = note_id and n.user_id = auth.uid()));
