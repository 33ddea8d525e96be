-- leaks through: public.cards
create table teams (id bigserial primary key, name text not null);
create table team_members (team_id bigint references teams, user_id uuid references auth.users, primary key (team_id, user_id));
create table boards (id bigserial primary key, name text not null);
create table team_boards (team_id bigint references teams, board_id bigint references boards, primary key (team_id, board_id));
create table cards (id bigserial primary key, board_id bigint not null references boards, body text not null);
alter table teams enable row level security;
alter table team_members enable row level security;
alter table boards enable row level security;
alter table team_boards enable row level security;
alter table cards enable row level security;
create policy "own" on team_members for select using (user_id = auth.uid());
create policy "mine" on teams for select using (id in (select team_id from team_members where user_id = auth.uid()));
create policy "mine" on team_boards for select using (team_id in (select team_id from team_members where user_id = auth.uid()));
create policy "mine" on boards for select using (id in (select board_id from team_boards));
create policy "any board" on cards for select using (exists (select 1 from team_boards));
