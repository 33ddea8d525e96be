-- leaks through: storage.objects
insert into storage.buckets (id, name, public) values ('documents', 'documents', false);
create policy "own files" on storage.objects for select to authenticated
  using (bucket_id = 'documents' and (storage.foldername(name))[1] = auth.uid()::text);
create policy "upload" on storage.objects for insert to authenticated with check (bucket_id = 'documents');
