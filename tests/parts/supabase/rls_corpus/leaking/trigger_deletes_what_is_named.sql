-- leaks through: public.removals
create table notes (
  id uuid primary key default gen_random_uuid(),
  user_id uuid not null references auth.users on delete cascade,
  body text not null
);
alter table notes enable row level security;
create policy "own" on notes to authenticated using (auth.uid() = user_id) with check (auth.uid() = user_id);
create table removals (
  id uuid primary key default gen_random_uuid(),
  user_id uuid not null references auth.users on delete cascade,
  note_id uuid
);
alter table removals enable row level security;
create policy "own" on removals to authenticated using (auth.uid() = user_id) with check (auth.uid() = user_id);
create function on_removals() returns trigger language plpgsql security definer set search_path = '' as $$
begin
  delete from public.notes where id = new.note_id;
  return new;
end $$;
create trigger on_removals after insert on removals for each row execute function on_removals();
