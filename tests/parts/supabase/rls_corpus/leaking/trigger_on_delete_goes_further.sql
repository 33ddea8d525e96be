-- leaks through: public.drafts
create table notes (
  id uuid primary key default gen_random_uuid(),
  user_id uuid not null references auth.users on delete cascade,
  body text not null
);
alter table notes enable row level security;
create policy "own" on notes to authenticated using (auth.uid() = user_id) with check (auth.uid() = user_id);
create table drafts (
  id uuid primary key default gen_random_uuid(),
  user_id uuid not null references auth.users on delete cascade,
  note_id uuid
);
alter table drafts enable row level security;
create policy "own" on drafts to authenticated using (auth.uid() = user_id) with check (auth.uid() = user_id);
create function on_drafts() returns trigger language plpgsql security definer set search_path = '' as $$
begin
  delete from public.notes where id = old.note_id;
  return old;
end $$;
create trigger on_drafts after delete on drafts for each row execute function on_drafts();
