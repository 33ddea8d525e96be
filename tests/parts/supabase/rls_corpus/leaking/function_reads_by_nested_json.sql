-- leaks through: fetch_note
create table notes (
  id uuid primary key default gen_random_uuid(),
  user_id uuid not null references auth.users on delete cascade,
  body text not null
);
alter table notes enable row level security;
create policy "own" on notes to authenticated using (auth.uid() = user_id) with check (auth.uid() = user_id);
create function fetch_note(request json) returns text language plpgsql security definer set search_path = '' as $$
begin
  return (select n.body from public.notes n where n.id = (request -> 'note' ->> 'id')::uuid);
end $$;
