create table notes (
  id uuid primary key default gen_random_uuid(),
  user_id uuid not null references auth.users on delete cascade,
  body text,
  amount int not null default 0
);
alter table notes enable row level security;
create policy "own" on notes to authenticated using (auth.uid() = user_id) with check (auth.uid() = user_id);
create function my_notes() returns setof notes language sql stable security definer
  set search_path = '' as $$ select * from public.notes where user_id = auth.uid() $$;
create function balance(who uuid) returns int language plpgsql stable security definer set search_path = '' as $$ begin
  if who is distinct from auth.uid() then raise exception 'not yours' using errcode = '42501'; end if;
  return (select sum(amount) from public.notes where user_id = who); end $$;
