create table posts (
  id bigserial primary key,
  author_id uuid not null references auth.users,
  visibility text not null default 'public' check (visibility in ('public', 'private')),
  likes int not null default 0,
  body text not null
);
create table replies (
  id bigserial primary key,
  post_id bigint not null references posts,
  user_id uuid not null references auth.users,
  body text not null
);
alter table posts enable row level security;
alter table replies enable row level security;
create policy "see" on posts for select using (visibility = 'public' or author_id = auth.uid());
create policy "write" on posts for insert to authenticated with check (author_id = auth.uid());
create policy "see" on replies for select using (exists (select 1 from posts p where p.id = post_id));
create policy "write" on replies for insert to authenticated
  with check (user_id = auth.uid() and exists (select 1 from posts p where p.id = post_id));
create function like_post(post bigint) returns void language sql security definer set search_path = '' as $$
  update public.posts set likes = likes + 1 where id = post and visibility = 'public' $$;
