create table conversations (id uuid primary key default gen_random_uuid(), topic text);
create table participants (
  conversation_id uuid references conversations on delete cascade,
  user_id uuid references auth.users on delete cascade,
  primary key (conversation_id, user_id)
);
create table messages (
  id bigserial primary key,
  conversation_id uuid not null references conversations on delete cascade,
  sender_id uuid not null references auth.users,
  body text not null
);
alter table conversations enable row level security;
alter table participants enable row level security;
alter table messages enable row level security;
create function takes_part(chat uuid) returns boolean language sql stable security definer set search_path = '' as $$
  select exists (select 1 from public.participants p where p.conversation_id = chat and p.user_id = auth.uid()) $$;
create policy "r" on conversations for select using (takes_part(id));
create policy "r" on participants for select using (takes_part(conversation_id));
create policy "r" on messages for select using (takes_part(conversation_id));
create policy "send" on messages for insert to authenticated
  with check (sender_id = auth.uid() and takes_part(conversation_id));
create policy "change" on messages for update to authenticated
  using (sender_id = auth.uid()) with check (sender_id = auth.uid() and takes_part(conversation_id));
