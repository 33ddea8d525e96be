-- leaks through: public.all_notes
create table notes (
  id uuid primary key default gen_random_uuid(),
  user_id uuid not null references auth.users on delete cascade,
  body text not null
);
alter table notes enable row level security;
create policy "own" on notes to authenticated using (auth.uid() = user_id) with check (auth.uid() = user_id);
create materialized view all_notes as select * from notes;
