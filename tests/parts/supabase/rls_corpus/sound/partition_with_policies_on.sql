create table events (
  id uuid not null default gen_random_uuid(),
  user_id uuid not null references auth.users on delete cascade,
  kind text not null default 'click',
  happened date not null default '2030-01-01',
  primary key (id, happened)
) partition by range (happened);
alter table events enable row level security;
create policy "own" on events to authenticated using (auth.uid() = user_id) with check (auth.uid() = user_id);
create table events_2030 partition of events for values from ('2030-01-01') to ('2031-01-01');
alter table events_2030 enable row level security;
