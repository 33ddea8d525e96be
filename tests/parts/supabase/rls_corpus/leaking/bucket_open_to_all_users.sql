-- leaks through: storage.objects
insert into storage.buckets (id, name, public) values ('documents', 'documents', false);
create policy "read" on storage.objects for select to authenticated using (bucket_id = 'documents');
