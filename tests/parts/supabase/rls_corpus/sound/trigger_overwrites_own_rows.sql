create table notes (
  id uuid primary key default gen_random_uuid(),
  user_id uuid not null references auth.users on delete cascade,
  body text not null
);
alter table notes enable row level security;
create policy "own" on notes to authenticated using (auth.uid() = user_id) with check (auth.uid() = user_id);
create table edits (
  id uuid primary key default gen_random_uuid(),
  user_id uuid not null references auth.users on delete cascade,
  note_id uuid,
  body text not null default 'x'
);
alter table edits enable row level security;
create policy "own" on edits to authenticated using (auth.uid() = user_id) with check (auth.uid() = user_id);
create function on_edits() returns trigger language plpgsql security definer set search_path = '' as $$
begin
  update public.notes set body = new.body where id = new.note_id and user_id = auth.uid();
  return new;
end $$;
create trigger on_edits after insert on edits for each row execute function on_edits();
