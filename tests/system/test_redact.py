"""Secrets never come out, in whatever pieces and spellings they go in."""

from __future__ import annotations

import json
from itertools import pairwise
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from segue.system.redact import MARK, Redactor, secrets_of

# Few letters, so that secrets overlap, begin alike and repeat; no brackets, which the mark itself has.
ALPHABET = 'ab%/"\\é '
SECRETS = st.lists(st.text(ALPHABET, min_size=8, max_size=14), max_size=4)


@st.composite
def leaks(draw: st.DrawFn) -> tuple[list[str], str]:
    """Secrets, and a text in which they and parts of them stand side by side."""
    secrets = draw(SECRETS)
    part = st.text(ALPHABET, max_size=6)
    if secrets:
        whole = st.sampled_from(secrets)
        cut = st.tuples(whole, st.integers(0, 14)).map(lambda pair: pair[0][: pair[1]])
        escaped = whole.map(lambda secret: json.dumps(secret)[1:-1])
        part = st.one_of(part, whole, cut, escaped, whole.map(quote_plus))
    return secrets, "".join(draw(st.lists(part, max_size=8)))


def feed(redactor: Redactor, data: bytes, cuts: list[int]) -> bytes:
    """What comes out when the data is cut at these places."""
    stream = redactor.stream()
    edges = [0, *sorted(cut % (len(data) + 1) for cut in cuts), len(data)]
    out = b"".join(stream.feed(data[a:b]) for a, b in pairwise(edges))
    return out + stream.close()


@settings(deadline=None)
@given(leaks(), st.lists(st.integers(0, 200), max_size=12))
def test_any_cutting_gives_what_redacting_the_whole_gives(
    leak: tuple[list[str], str], cuts: list[int]
) -> None:
    secrets, text = leak
    redactor = Redactor(secrets)
    whole = redactor.text(text)
    assert feed(redactor, text.encode(), cuts) == whole.encode()
    assert feed(redactor, text.encode(), list(range(len(text.encode()) + 1))) == whole.encode()
    for secret in secrets:
        stripped = secret.strip()
        assert len(stripped) < 8 or stripped not in whole


@settings(deadline=None)
@given(st.binary(max_size=60), st.lists(st.integers(0, 60), max_size=6))
def test_bytes_that_are_no_text_pass_unchanged(data: bytes, cuts: list[int]) -> None:
    assert feed(Redactor(["correct horse battery"]), data, cuts) == data


def test_only_what_could_become_a_secret_is_held_back() -> None:
    stream = Redactor(["sk-12345678"]).stream()
    assert stream.feed(b"hello sk") == b"hello "
    assert stream.feed(b"ip sk-1234567") == b"skip "
    assert stream.feed(b"8!") == b"[redacted]!"
    assert stream.feed(b"done sk-1") == b"done "
    assert stream.close() == b"sk-1"
    assert stream.close() == b""


def test_of_two_secrets_that_begin_alike_the_longer_one_goes_whole() -> None:
    redactor = Redactor(["token-abc", "token-abc-and-more"])
    assert redactor.text("<token-abc-and-more> <token-abc>") == f"<{MARK}> <{MARK}>"
    assert feed(redactor, b"token-abc-and-more", [9]) == MARK.encode()
    assert feed(redactor, b"token-abc-and-less", [9]) == f"{MARK}-and-less".encode()


@pytest.mark.parametrize(
    "spell",
    [
        lambda s: s,
        lambda s: json.dumps(s),
        lambda s: json.dumps(s, ensure_ascii=False),
        lambda s: json.dumps(s).replace("/", "\\/"),
        lambda s: json.dumps({"stdout": json.dumps({"key": s})}),
        lambda s: quote(s),
        lambda s: quote(s, safe=""),
        quote_plus,
    ],
)
def test_spellings_on_the_way_through_programs(spell: object) -> None:
    assert callable(spell)
    secret = 'pä"ss/wörd\n+\\ 1'
    spelt = spell(secret)
    assert MARK in Redactor([secret]).text(spelt)
    assert "rd" not in Redactor([secret]).text(spelt).replace("stdout", "")
    assert b"rd" not in feed(Redactor([secret]), spelt.encode(), [5, 9]).replace(b"stdout", b"")


def test_data_is_redacted_all_the_way_down_keys_included() -> None:
    secret = "hunter2hunter2"
    data = {"a": [1, None, {"x" + secret: (secret, True, 1.5)}], "b": f"<{secret}>"}
    clean = Redactor([secret]).data(data)
    assert clean == {"a": [1, None, {f"x{MARK}": [MARK, True, 1.5]}], "b": f"<{MARK}>"}


def test_without_secrets_nothing_is_copied() -> None:
    redactor = Redactor(["short", "", "       x        "])
    text, data, piece = "short", {"short": ["x"]}, b"short"
    assert redactor.text(text) is text
    assert redactor.data(data) is data
    stream = redactor.stream()
    assert stream.feed(piece) is piece
    assert stream.close() == b""


def test_a_line_end_in_the_variable_does_not_hide_the_secret() -> None:
    assert Redactor(["abcdefgh1234\n"]).text("key=abcdefgh1234;") == f"key={MARK};"


def test_undecodable_bytes_of_the_environment_are_found_in_the_stream() -> None:
    secret = b"caf\xe9-caf\xe9-caf\xe9".decode("utf-8", "surrogateescape")
    assert feed(Redactor([secret]), b"<caf\xe9-caf\xe9-caf\xe9>", [3]) == b"<[redacted]>"
    assert Redactor(["\ud800" * 8]).text("\ud800" * 8) == MARK


def test_which_variables_hold_secrets() -> None:
    secret = {
        "CURSOR_API_KEY": "key_aaaaaaaa",
        "GITHUB_TOKEN": "ghp_bbbbbbbb",
        "CLIENT_SECRET": "cccccccccc",
        "PGPASSWORD": "dddddddddd",
        "MYSQL_PASSWD": "eeeeeeeeee",
        "GOOGLE_CREDENTIALS": "ffffffffff",
        "AZURE_PAT": "gggggggggg",
        "accessToken": "hhhhhhhhhh",
        "API_KEYS": "iiiiiiiiii,jjjjjjjjjj",
        "SECRET_KEY_BASE": "kkkkkkkkkk",
    }
    harmless = {
        "SSH_AUTH_SOCK": "/tmp/ssh-1234/agent",
        "PATH": "/usr/bin:/bin",
        "SSH_KEY_PATH": "/home/me/.ssh/id",
        "TOKEN_FILE": "/run/secrets/token",
        "TOKENIZERS_PARALLELISM": "disabled-by-me",
        "KEYBOARD_LAYOUT": "colemak-dh",
        "PATTERN": "anything-long",
        "SHORT_KEY": "abc",
        "EDITOR": "some-editor",
    }
    assert secrets_of({**secret, **harmless}) == list(secret.values())


def test_passwords_inside_urls() -> None:
    environ = {
        "DATABASE_URL": "postgres://postgres:p%40ssw0rd-1@localhost/db",
        "PLAIN_URL": "https://example.org/a:b@c",
        "BROKEN_URL": "http://[::1:secretsecret@x",
    }
    assert secrets_of(environ) == ["p%40ssw0rd-1", "p@ssw0rd-1"]
