create table notes (
  id uuid primary key default gen_random_uuid(),
  user_id uuid not null references auth.users on delete cascade,
  body text not null
);
alter table notes enable row level security;
create policy "own" on notes to authenticated using (auth.uid() = user_id) with check (auth.uid() = user_id);
create table bookmarks (
  id uuid primary key default gen_random_uuid(),
  user_id uuid not null references auth.users on delete cascade,
  note_id uuid,
  copied text
);
alter table bookmarks enable row level security;
create policy "own" on bookmarks to authenticated using (auth.uid() = user_id) with check (auth.uid() = user_id);
create function on_bookmarks() returns trigger language plpgsql security definer set search_path = '' as $$
begin
  new.copied := (select n.body from public.notes n where n.id = new.note_id and n.user_id = auth.uid());
  return new;
end $$;
create trigger on_bookmarks before update on bookmarks for each row execute function on_bookmarks();
