"""Which values are secrets: by the names of variables, inside of addresses, in a project's `.env` files."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from segue.system.redact import MARK, Redactor
from segue.system.sensitive import passwords_in, project_secrets, secrets_of

SECRET = """
    CURSOR_API_KEY GITHUB_TOKEN CLIENT_SECRET PGPASSWORD MYSQL_PASSWD GOOGLE_CREDENTIALS AZURE_PAT
    accessToken API_KEYS
    SECRET_KEY_BASE DB_PASS SMTP_PASS MYSQL_PWD SENTRY_DSN CONNECTION_STRING
    ConnectionStrings__Default AZURE_SAS
    REGISTRY_AUTH AWS_ACCESS_KEY_ID SSH_PRIVATE_KEY BEARER SESSION_COOKIE SLACK_WEBHOOK_URL
    REQUEST_SIGNATURE NPM_TOKENS
    APIKEY AUTH_JWT _AUTH
""".split()  # noqa: SIM905
HARMLESS = """
    SSH_AUTH_SOCK PATH SSH_KEY_PATH TOKEN_FILE TOKENIZERS_PARALLELISM KEYBOARD_LAYOUT PATTERN EDITOR
    MONKEY TURKEY
    GIT_AUTHOR_NAME GIT_AUTHOR_EMAIL PWD OLDPWD COMPASS_HOME PASSENGER_ENV AUTHORITY AUTH_TYPE TOKEN_NAME
    KEYCLOAK_HOST
    XAUTHORITY LESSKEYS_DIR BYPASS_CACHE
""".split()  # noqa: SIM905


@pytest.mark.parametrize("name", SECRET)
def test_names_of_secrets(name: str) -> None:
    assert secrets_of({name: "some-value-1"}) == ["some-value-1"]


@pytest.mark.parametrize("name", HARMLESS)
def test_names_of_other_things(name: str) -> None:
    assert secrets_of({name: "some-value-1"}) == []


def test_every_long_line_of_a_key_is_a_secret() -> None:
    key = "-----BEGIN KEY-----\n0123456789abcdef\nshort\nfedcba9876543210\n-----END KEY-----"
    found = Redactor(secrets_of({"SIGNING_KEY": key}))
    assert found.text("only fedcba9876543210 here") == f"only {MARK} here"
    assert found.text(key) == MARK


@pytest.mark.parametrize(
    ("address", "secret"),
    [
        ("postgres://postgres:p%40ssw0rd-1@localhost/db", "p@ssw0rd-1"),
        ("postgres://postgres:p@ss/w0rd-1@localhost/db", "p@ss/w0rd-1"),
        ("postgres://postgres:p@ssw0rd-1@localhost/db", "ssw0rd-1"),
        ("postgres://localhost/db?user=me&password=hunter2-hunter2", "hunter2-hunter2"),
        ("host=localhost user=me password=hunter2-hunter2", "hunter2-hunter2"),
        (r"host=localhost password='it\'s a secret' user=me", "it's a secret"),
        ("https://example.org/hook?token=abcdefgh-1234", "abcdefgh-1234"),
        ("https://acc.blob.core.windows.net/c?sv=1&sig=abcd%2Fefgh%3D", "abcd/efgh="),
        ("DefaultEndpointsProtocol=https;AccountName=a;AccountKey=abcdefgh1234==;", "abcdefgh1234=="),
        ("Server=db;Database=x;User Id=me;Password=hunter2-hunter2;", "hunter2-hunter2"),
        ("redis://:hunter2-hunter2@localhost:6379/0", "hunter2-hunter2"),
    ],
)
def test_passwords_inside_of_addresses(address: str, secret: str) -> None:
    assert secret in secrets_of({"SERVICE": address})


@pytest.mark.parametrize(
    "address",
    ["https://example.org/a:b@c", "http://localhost:8080/a@b", "http://[::1:secretsecret", "a=b", "x://"],
)
def test_addresses_without_passwords(address: str) -> None:
    assert passwords_in(address) == []


def test_env_files_of_a_project(tmp_path: Path) -> None:
    root, inner = tmp_path / "project", tmp_path / "project" / "app"
    (root / ".git").mkdir(parents=True)
    inner.mkdir()
    (tmp_path / ".env").write_text("API_KEY=outside-of-it\n")
    (root / ".env").write_text(
        "# comment\nPORT=8080\nexport API_KEY=root-key-1  # the key\nNAME=development\n"
        "DB_PASS='single # quoted'\nDATABASE_URL=\"postgres://u:in-the-url@h/d\"\n"
        'PRIVATE_KEY="-----BEGIN\n0123456789abcdef0\n-----END"\nEMPTY_KEY=\n'
    )
    (inner / ".env.local").write_bytes(b"\xef\xbb\xbfSECRET=local-secret\r\nTOKEN=\xff\xfe-broken-bytes\n")
    (root / ".env.example").write_text("API_KEY=your-key-here\n")
    (root / ".env.sample").write_text("API_KEY=your-key-here\n")
    (root / ".envrc").write_text("API_KEY=not-one-of-them\n")
    (root / ".env.link").symlink_to(tmp_path / ".env")
    os.mkfifo(root / ".env.fifo")
    (root / ".env.folder").mkdir()
    found = project_secrets(inner)
    for secret in ("root-key-1", "single # quoted", "in-the-url", "0123456789abcdef0", "local-secret"):
        assert secret in found
    assert not {"outside-of-it", "your-key-here", "not-one-of-them", "development", "8080"} & set(found)


def test_a_huge_file_is_read_in_part(tmp_path: Path) -> None:
    with (tmp_path / ".env").open("wb") as file:
        file.write(b"API_KEY=the-first-key\n")
        file.truncate(10 * 1024**3)
    assert project_secrets(tmp_path)[0] == "the-first-key"
