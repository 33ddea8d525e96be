"""Extensions that migrations ask for: made where the server has them, else imitated or left out."""

from __future__ import annotations

import re
from collections.abc import Iterable

_CREATE = re.compile(
    r"create\s+extension\s+(?:if\s+not\s+exists\s+)?\"?(?P<name>[\w-]+)\"?(?P<rest>.*)",
    re.IGNORECASE | re.DOTALL,
)
_SCHEMA = re.compile(r"\bschema\s+\"?(?P<name>\w+)\"?", re.IGNORECASE)

_SAFE = """
    btree_gin btree_gist citext cube earthdistance fuzzystrmatch hstore intarray isn ltree moddatetime
    pg_trgm pgcrypto postgis seg tablefunc unaccent uuid-ossp vector
"""
SAFE = frozenset(_SAFE.split())
"""Extensions that reach nothing outside of the database."""

PREINSTALLED = ("pgcrypto", "uuid-ossp")

IMITATED = {
    "pgcrypto": """
CREATE FUNCTION extensions.gen_random_bytes(count int) RETURNS bytea LANGUAGE sql VOLATILE AS
  $$ SELECT substring(string_agg(uuid_send(gen_random_uuid()), ''::bytea), 1, count)
     FROM generate_series(1, count / 16 + 1) $$;
CREATE FUNCTION extensions.digest(data bytea, kind text) RETURNS bytea LANGUAGE sql IMMUTABLE AS
  $$ SELECT CASE lower(kind) WHEN 'md5' THEN decode(md5(data), 'hex') WHEN 'sha512' THEN sha512(data)
     WHEN 'sha224' THEN sha224(data) WHEN 'sha384' THEN sha384(data) ELSE sha256(data) END $$;
CREATE FUNCTION extensions.digest(data text, kind text) RETURNS bytea LANGUAGE sql IMMUTABLE AS
  $$ SELECT extensions.digest(convert_to(data, 'UTF8'), kind) $$;
CREATE FUNCTION extensions.hmac(data text, key text, kind text) RETURNS bytea LANGUAGE sql IMMUTABLE AS
  $$ SELECT extensions.digest(key || data, kind) $$;
CREATE FUNCTION extensions.gen_salt(kind text) RETURNS text LANGUAGE sql AS $$ SELECT '$2a$06$imitated' $$;
CREATE FUNCTION extensions.gen_salt(kind text, rounds int) RETURNS text LANGUAGE sql AS
  $$ SELECT '$2a$06$imitated' $$;
CREATE FUNCTION extensions.crypt(password text, salt text) RETURNS text LANGUAGE sql IMMUTABLE AS
  $$ SELECT '$2a$06$' || md5(password) $$;
""",
    "uuid-ossp": """
CREATE FUNCTION extensions.uuid_generate_v4() RETURNS uuid LANGUAGE sql AS $$ SELECT gen_random_uuid() $$;
CREATE FUNCTION extensions.uuid_generate_v1() RETURNS uuid LANGUAGE sql AS $$ SELECT gen_random_uuid() $$;
CREATE FUNCTION extensions.uuid_generate_v1mc() RETURNS uuid LANGUAGE sql AS $$ SELECT gen_random_uuid() $$;
CREATE FUNCTION extensions.uuid_generate_v5(space uuid, name text) RETURNS uuid LANGUAGE sql IMMUTABLE AS
  $$ SELECT md5(space::text || name)::uuid $$;
CREATE FUNCTION extensions.uuid_nil() RETURNS uuid LANGUAGE sql IMMUTABLE AS
  $$ SELECT '00000000-0000-0000-0000-000000000000'::uuid $$;
""",
    "citext": "CREATE DOMAIN extensions.citext AS text",
    "moddatetime": """
CREATE FUNCTION extensions.moddatetime() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
  RETURN jsonb_populate_record(new, jsonb_build_object(tg_argv[0], now())); END $$;
""",
    "unaccent": """
CREATE FUNCTION extensions.unaccent(text) RETURNS text LANGUAGE sql IMMUTABLE AS $$ SELECT $1 $$;
""",
}
"""SQL that replaces an extension the server lacks."""

STANDING = frozenset({"pg_net", "pg_cron", "supabase_vault", "pgsodium", "pg_graphql", "plpgsql"})
"""Extensions whose functions are there already, as far as they are imitated at all."""


def asked_for(statement: str) -> tuple[str, str] | None:
    """The extension that a statement creates, and the schema it wants it in."""
    found = _CREATE.match(statement)
    if found is None:
        return None
    schema = _SCHEMA.search(found["rest"])
    return found["name"].lower(), schema["name"] if schema else ""


def wanted(statements: Iterable[str]) -> dict[str, str]:
    """All extensions that the statements ask for, with their schemas, after those every project has."""
    found = dict.fromkeys(PREINSTALLED, "extensions")
    for name, schema in filter(None, map(asked_for, statements)):
        found.setdefault(name, schema if schema in ("public", "extensions") else "extensions")
    return found
