-- leaks through: delete_note
create table notes (
  id uuid primary key default gen_random_uuid(),
  user_id uuid not null references auth.users on delete cascade,
  body text,
  amount int not null default 0
);
alter table notes enable row level security;
create policy "own" on notes to authenticated using (auth.uid() = user_id) with check (auth.uid() = user_id);
create function delete_note(note_id uuid) returns void language plpgsql security definer
  set search_path = '' as $$ begin delete from public.notes where id = note_id; end $$;
