"""Addresses of databases are understood as libpq does, and never shown with a password."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from segue.cli.main import run
from segue.domain.errors import SegueError, UsageError
from segue.store import connect
from segue.store.address import check_address, is_pooled, is_postgres, masked

LETTERS = "abzXY0189@:/?#&=%'\\ .,-!é"
PASSWORDS = st.text(LETTERS, min_size=4, max_size=20).map(lambda text: f"Pw{text}wP")
ADDRESSES = [
    lambda password: f"postgres://me:{password}@host:5432/db",
    lambda password: f"postgresql://me:{quote(password, safe='')}@one:1,two:2/db?sslmode=require",
    lambda password: f"postgresql://:{password}@/db?host=/var/run/postgresql",
    lambda password: f"postgresql://me@host/db?password={quote(password, safe='')}",
    lambda password: f"postgresql://host:5432/db?password={password}&sslmode=require",
    lambda password: f"postgresql://host/db?user=me&sslpassword={password}",
    lambda password: (
        "host=localhost password='" + password.replace("\\", "\\\\").replace("'", "\\'") + "' user=me"
    ),
    lambda password: "password=" + quote(password, safe="") + " host=localhost",
    lambda password: f"host=localhost password={password}",
    lambda password: f"service=mine password = '{password}",
]


def pieces(password: str) -> set[str]:
    """The password, and the parts of it that an unquoted character may cut off."""
    found = {password, quote(password, safe="")}
    for mark in "@:/?#&=' ":
        found |= {part for part in password.split(mark) if len(part) > 5}
    return found


@given(PASSWORDS, st.sampled_from(ADDRESSES))
def test_no_password_is_shown(password: str, make: object) -> None:
    assert callable(make)
    address = make(password)
    assert is_postgres(address)
    shown = masked(address)
    for piece in pieces(password):
        assert piece not in shown.replace("***", "")


@pytest.mark.parametrize(
    ("address", "shown"),
    [
        ("postgres://me@host/db", "postgres://me@host/db"),
        (
            "postgresql://me:x@one:1,[::1]:2/db?sslmode=require",
            "postgresql://me:***@one:1,[::1]:2/db?sslmode=require",
        ),
        ("postgresql:///db?host=/run/postgresql", "postgresql:///db?host=/run/postgresql"),
        ("postgresql://me:p@ss/w@host/db", "postgresql://me:***@host/db"),
        ("host=h password='it\\'s' user=me", "host=h password=*** user=me"),
        ("service=mine", "service=mine"),
        ("host=h password='unfinished", "***"),
        ("/home/me/a=b/segue.db", "/home/me/a=b/segue.db"),
    ],
)
def test_how_addresses_are_shown(address: str, shown: str) -> None:
    assert masked(address) == shown
    assert check_address(address) == address


@pytest.mark.parametrize("address", ["mysql://me:secret-1@host/db", "Server=h;Password=secret-1", "a\0b"])
def test_other_databases_are_refused(address: str) -> None:
    with pytest.raises(UsageError, match="neither") as caught:
        check_address(address)
    assert "secret-1" not in str(caught.value)


def test_a_pooler_is_seen_in_both_forms() -> None:
    assert is_pooled("postgres://me:x@host:6543/db")
    assert is_pooled("host=h port=6543 user=me")
    assert not is_pooled("postgres://me:6543@host:5432/db")


@pytest.mark.parametrize(
    "address",
    [
        "postgresql://me:secret-1@tail-2@127.0.0.1:1/db",
        "host=127.0.0.1 port=1 password=secret-1tail-2",
        "postgresql://127.0.0.1:1/db?password=secret-1tail-2",
        "postgresql://me:secret-1tail-2/x@127.0.0.1:1/db",
        "mysql://me:secret-1tail-2@127.0.0.1/db",
    ],
)
def test_errors_and_commands_do_not_print_it(
    address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("psycopg")
    if not address.startswith("mysql"):
        with pytest.raises(SegueError) as caught:
            connect(address)
        said = f"{caught.value.message} {caught.value.hint}"
        assert "secret-1" not in said
        assert "tail-2" not in said
    for name, value in {"DATABASE_URL": address, "STATE_DIR": str(tmp_path / "state")}.items():
        monkeypatch.setenv(f"SEGUE_{name}", value)
    monkeypatch.chdir(tmp_path)
    for command in (
        ["db", "path"],
        ["db", "path", "--json"],
        ["config", "list"],
        ["config", "list", "--json"],
    ):
        run(command)
    printed = "".join(capsys.readouterr())
    assert "secret-1" not in printed
    assert "tail-2" not in printed
    for path in tmp_path.rglob("*"):
        assert "secret-1" not in str(path)
