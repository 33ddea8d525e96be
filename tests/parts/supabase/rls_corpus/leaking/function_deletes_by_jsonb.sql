-- leaks through: drop_note
create table notes (
  id uuid primary key default gen_random_uuid(),
  user_id uuid not null references auth.users on delete cascade,
  body text not null
);
alter table notes enable row level security;
create policy "own" on notes to authenticated using (auth.uid() = user_id) with check (auth.uid() = user_id);
create function drop_note(args jsonb) returns void language plpgsql security definer set search_path = '' as $$
begin
  delete from public.notes n where n.id = (args ->> 'note_id')::uuid;
end $$;
