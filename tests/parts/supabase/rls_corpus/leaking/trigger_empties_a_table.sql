-- leaks through: public.resets
create table notes (
  id uuid primary key default gen_random_uuid(),
  user_id uuid not null references auth.users on delete cascade,
  body text not null
);
alter table notes enable row level security;
create policy "own" on notes to authenticated using (auth.uid() = user_id) with check (auth.uid() = user_id);
create table resets (
  id uuid primary key default gen_random_uuid(),
  user_id uuid not null references auth.users on delete cascade
);
alter table resets enable row level security;
create policy "own" on resets to authenticated using (auth.uid() = user_id) with check (auth.uid() = user_id);
create function on_resets() returns trigger language plpgsql security definer set search_path = '' as $$
begin
  delete from public.notes where true;
  return new;
end $$;
create trigger on_resets after insert on resets for each row execute function on_resets();
