"""The parts of an empty Supabase database that migrations and policies rely on."""

from __future__ import annotations

ROLES = {
    "anon": "NOLOGIN NOINHERIT",
    "authenticated": "NOLOGIN NOINHERIT",
    "service_role": "NOLOGIN NOINHERIT BYPASSRLS",
    "authenticator": "NOLOGIN NOINHERIT",
    "supabase_admin": "NOLOGIN",
    "supabase_auth_admin": "NOLOGIN NOINHERIT",
    "supabase_storage_admin": "NOLOGIN NOINHERIT",
    "supabase_realtime_admin": "NOLOGIN NOINHERIT",
    "supabase_functions_admin": "NOLOGIN NOINHERIT",
    "supabase_replication_admin": "NOLOGIN",
    "supabase_read_only_user": "NOLOGIN",
    "dashboard_user": "NOLOGIN",
    "pgbouncer": "NOLOGIN",
}
"""Roles and their attributes."""

API = "anon, authenticated, service_role"
SCHEMAS = (
    *("auth", "storage", "extensions", "realtime", "graphql", "graphql_public", "vault", "net", "cron"),
    "supabase_functions",
)

AUTH = """
CREATE TABLE auth.users (
  instance_id uuid, id uuid PRIMARY KEY, aud varchar(255), role varchar(255), email varchar(255) UNIQUE,
  encrypted_password varchar(255), email_confirmed_at timestamptz, invited_at timestamptz,
  confirmation_token varchar(255), confirmation_sent_at timestamptz, recovery_token varchar(255),
  recovery_sent_at timestamptz, email_change_token_new varchar(255), email_change varchar(255),
  email_change_sent_at timestamptz, last_sign_in_at timestamptz, raw_app_meta_data jsonb,
  raw_user_meta_data jsonb, is_super_admin boolean, created_at timestamptz, updated_at timestamptz,
  phone text UNIQUE, phone_confirmed_at timestamptz, phone_change text, phone_change_token varchar(255),
  phone_change_sent_at timestamptz, email_change_token_current varchar(255),
  email_change_confirm_status smallint DEFAULT 0, banned_until timestamptz,
  reauthentication_token varchar(255), reauthentication_sent_at timestamptz,
  confirmed_at timestamptz GENERATED ALWAYS AS (least(email_confirmed_at, phone_confirmed_at)) STORED,
  is_sso_user boolean NOT NULL DEFAULT false, deleted_at timestamptz,
  is_anonymous boolean NOT NULL DEFAULT false
);
CREATE TABLE auth.identities (
  provider_id text NOT NULL, user_id uuid NOT NULL REFERENCES auth.users ON DELETE CASCADE,
  identity_data jsonb NOT NULL, provider text NOT NULL, last_sign_in_at timestamptz,
  created_at timestamptz, updated_at timestamptz, email text, id uuid PRIMARY KEY DEFAULT gen_random_uuid()
);
CREATE TABLE auth.sessions (
  id uuid PRIMARY KEY, user_id uuid NOT NULL REFERENCES auth.users ON DELETE CASCADE,
  created_at timestamptz, updated_at timestamptz, factor_id uuid, aal text, not_after timestamptz
);
ALTER TABLE auth.users ENABLE ROW LEVEL SECURITY;
ALTER TABLE auth.identities ENABLE ROW LEVEL SECURITY;
ALTER TABLE auth.sessions ENABLE ROW LEVEL SECURITY;
CREATE FUNCTION auth.jwt() RETURNS jsonb LANGUAGE sql STABLE AS
  $$ SELECT coalesce(nullif(current_setting('request.jwt.claims', true), ''), '{}')::jsonb $$;
CREATE FUNCTION auth.uid() RETURNS uuid LANGUAGE sql STABLE AS
  $$ SELECT nullif(auth.jwt() ->> 'sub', '')::uuid $$;
CREATE FUNCTION auth.role() RETURNS text LANGUAGE sql STABLE AS $$ SELECT auth.jwt() ->> 'role' $$;
CREATE FUNCTION auth.email() RETURNS text LANGUAGE sql STABLE AS $$ SELECT auth.jwt() ->> 'email' $$;
"""

STORAGE = """
CREATE TABLE storage.buckets (
  id text PRIMARY KEY, name text NOT NULL UNIQUE, owner uuid, owner_id text,
  created_at timestamptz DEFAULT now(), updated_at timestamptz DEFAULT now(), public boolean DEFAULT false,
  avif_autodetection boolean DEFAULT false, file_size_limit bigint, allowed_mime_types text[],
  type text NOT NULL DEFAULT 'STANDARD'
);
CREATE TABLE storage.objects (
  id uuid PRIMARY KEY DEFAULT gen_random_uuid(), bucket_id text REFERENCES storage.buckets, name text,
  owner uuid, owner_id text, created_at timestamptz DEFAULT now(), updated_at timestamptz DEFAULT now(),
  last_accessed_at timestamptz DEFAULT now(), metadata jsonb, user_metadata jsonb, version text,
  path_tokens text[] GENERATED ALWAYS AS (string_to_array(name, '/')) STORED,
  UNIQUE (bucket_id, name)
);
ALTER TABLE storage.buckets ENABLE ROW LEVEL SECURITY;
ALTER TABLE storage.objects ENABLE ROW LEVEL SECURITY;
CREATE FUNCTION storage.foldername(name text) RETURNS text[] LANGUAGE sql IMMUTABLE AS
  $$ SELECT (string_to_array(name, '/'))[1:array_length(string_to_array(name, '/'), 1) - 1] $$;
CREATE FUNCTION storage.filename(name text) RETURNS text LANGUAGE sql IMMUTABLE AS
  $$ SELECT (string_to_array(name, '/'))[array_length(string_to_array(name, '/'), 1)] $$;
CREATE FUNCTION storage.extension(name text) RETURNS text LANGUAGE sql IMMUTABLE AS
  $$ SELECT reverse(split_part(reverse(storage.filename(name)), '.', 1)) $$;
"""

SERVICES = """
CREATE TABLE realtime.messages (
  id uuid PRIMARY KEY DEFAULT gen_random_uuid(), topic text NOT NULL, extension text NOT NULL, payload jsonb,
  event text, private boolean DEFAULT false, updated_at timestamp DEFAULT now(),
  inserted_at timestamp DEFAULT now()
);
ALTER TABLE realtime.messages ENABLE ROW LEVEL SECURITY;
CREATE FUNCTION realtime.topic() RETURNS text LANGUAGE sql STABLE AS
  $$ SELECT nullif(current_setting('realtime.topic', true), '') $$;
CREATE FUNCTION realtime.send(payload jsonb, event text, topic text, private boolean DEFAULT true)
  RETURNS void LANGUAGE sql AS $$ SELECT $$;
CREATE FUNCTION realtime.broadcast_changes(topic_name text, event_name text, operation text, table_name text,
  table_schema text, new record, old record, level text DEFAULT 'ROW') RETURNS void LANGUAGE plpgsql AS
  $$ BEGIN END $$;
CREATE PUBLICATION supabase_realtime;
CREATE TABLE vault.secrets (
  id uuid PRIMARY KEY DEFAULT gen_random_uuid(), name text UNIQUE, description text NOT NULL DEFAULT '',
  secret text NOT NULL, created_at timestamptz DEFAULT now(), updated_at timestamptz DEFAULT now()
);
CREATE VIEW vault.decrypted_secrets AS SELECT *, secret AS decrypted_secret FROM vault.secrets;
CREATE FUNCTION vault.create_secret(new_secret text, new_name text DEFAULT NULL,
  new_description text DEFAULT '')
  RETURNS uuid LANGUAGE sql AS $$ INSERT INTO vault.secrets (secret, name, description)
  VALUES (new_secret, new_name, new_description) RETURNING id $$;
CREATE FUNCTION net.http_post(url text, body jsonb DEFAULT '{}', params jsonb DEFAULT '{}',
  headers jsonb DEFAULT '{}', timeout_milliseconds int DEFAULT 1000) RETURNS bigint LANGUAGE sql AS
  $$ SELECT 1::bigint $$;
CREATE FUNCTION net.http_get(url text, params jsonb DEFAULT '{}', headers jsonb DEFAULT '{}',
  timeout_milliseconds int DEFAULT 1000) RETURNS bigint LANGUAGE sql AS $$ SELECT 1::bigint $$;
CREATE TABLE cron.job (jobid bigserial PRIMARY KEY, jobname text UNIQUE, schedule text, command text);
CREATE FUNCTION cron.schedule(job_name text, schedule text, command text) RETURNS bigint LANGUAGE sql AS
  $$ INSERT INTO cron.job (jobname, schedule, command) VALUES (job_name, schedule, command)
     ON CONFLICT (jobname) DO UPDATE SET schedule = excluded.schedule RETURNING jobid $$;
CREATE FUNCTION cron.schedule(schedule text, command text) RETURNS bigint LANGUAGE sql AS
  $$ INSERT INTO cron.job (schedule, command) VALUES (schedule, command) RETURNING jobid $$;
CREATE FUNCTION cron.unschedule(job_name text) RETURNS boolean LANGUAGE sql AS
  $$ DELETE FROM cron.job WHERE jobname = job_name; SELECT true $$;
CREATE FUNCTION supabase_functions.http_request() RETURNS trigger LANGUAGE plpgsql AS
  $$ BEGIN RETURN coalesce(new, old); END $$;
"""
"""Services that a migration may call; nothing is sent, nothing is scheduled."""

LENT = ("storage.buckets", "storage.objects", "realtime.messages", "vault.secrets", "cron.job")
"""Tables on which a project may make policies, so its role owns them here."""


def grants(owner: str) -> str:
    """Grant what Supabase grants: in `public` everything to everybody, hence the policies."""
    services = ", ".join(schema for schema in SCHEMAS if schema not in ("auth", "vault", "cron"))
    lines = [
        "REVOKE CREATE ON SCHEMA public FROM PUBLIC",
        f"GRANT ALL ON SCHEMA public TO {owner}",
        f"GRANT USAGE ON SCHEMA public, {services} TO {API}, {owner}",
        f"GRANT USAGE ON SCHEMA auth TO {API}, {owner}, supabase_auth_admin",
        f"GRANT USAGE ON SCHEMA vault, cron TO {owner}",
        f"GRANT CREATE ON SCHEMA extensions, storage TO {owner}",
        f"GRANT ALL ON ALL TABLES IN SCHEMA auth TO {owner}",
        f"GRANT ALL ON ALL TABLES IN SCHEMA storage, realtime TO {API}, {owner}",
        f"GRANT ALL ON ALL TABLES IN SCHEMA vault, cron TO {owner}",
        f"GRANT USAGE ON ALL SEQUENCES IN SCHEMA cron TO {owner}",
        f"ALTER PUBLICATION supabase_realtime OWNER TO {owner}",
        *(f"ALTER TABLE {table} OWNER TO {owner}" for table in LENT),
        *(
            f"ALTER TABLE auth.{table} OWNER TO supabase_auth_admin"
            for table in ("users", "identities", "sessions")
        ),
    ]
    lines += [
        f"ALTER DEFAULT PRIVILEGES FOR ROLE {owner} IN SCHEMA public GRANT ALL ON {kind} TO {API}"
        for kind in ("TABLES", "SEQUENCES", "FUNCTIONS")
    ]
    return ";\n".join(lines)
