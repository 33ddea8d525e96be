"""Secrets never come out, whatever programs make of them on the way."""

from __future__ import annotations

import base64
import hashlib
import json
import random
import uuid

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from segue.domain.text import clean, strip_control
from segue.system.redact import MARK, Redactor
from tests.system.spelling import SECRETS, WHOLE, encoded, spelt

# Few letters, so that secrets overlap, begin alike and repeat; no brackets, which the mark itself has.
ALPHABET = 'ab%/"\\é '


@given(SECRETS.flatmap(lambda secret: st.tuples(st.just(secret), spelt(secret))))
@example(("p@ss/w0rd&more", "p%40ss%2fw0rd\\u0026more"))
@example(("00000000%00", "00000000%00"))
def test_no_spelling_comes_through(case: tuple[str, str]) -> None:
    secret, text = case
    out = Redactor([secret, "another secret"]).text(f"it says <{text}> and more")
    assert MARK in out
    assert strip_control(text) not in out
    assert out.startswith("it says <")
    assert out.endswith("> and more")


@given(st.text(ALPHABET, max_size=60), st.lists(st.text(ALPHABET, min_size=8, max_size=14), max_size=4))
def test_secrets_that_overlap_and_begin_alike(text: str, secrets: list[str]) -> None:
    for secret in secrets:
        text += secret
    out = Redactor(secrets).text(text)
    for secret in secrets:
        assert len(secret.strip()) < 8 or secret.strip() not in out


@pytest.mark.parametrize("name", sorted(WHOLE))
def test_only_the_secret_goes(name: str) -> None:
    secret = 'p@ss/wörd&1 "more'
    assert Redactor([secret]).text(f"pass={WHOLE[name](secret)};") == f"pass={MARK};"


@pytest.mark.parametrize("before", [b"", b"x", b"xy", b"user:"])
@pytest.mark.parametrize("after", [b"", b"z", b"zz", b" and more"])
@pytest.mark.parametrize("width", [0, 20, 64, 76])
def test_base64_at_any_place_and_with_line_ends(before: bytes, after: bytes, width: int) -> None:
    secret = "0a-Very_long?secret>with~many!characters&in+it;that|goes^over(several)lines{of}text" * 2
    for in_urls in (False, True):
        text = encoded(secret, before, after, in_urls)
        text = (
            "\n".join(text[place : place + width] for place in range(0, len(text), width)) if width else text
        )
        out = Redactor([secret]).text(f"<{text}>")
        assert MARK in out
        assert len(out) < len(MARK) + len(base64.b64encode(before + after)) + 12


@pytest.mark.parametrize("end", ["\n", "\r\n", "\n    ", "\\\n", "  \n"])
@pytest.mark.parametrize("at", range(1, 20))
def test_a_secret_that_goes_over_a_line_end(at: int, end: str) -> None:
    secret = "hunter2hunter3hunter4"
    assert Redactor([secret]).text(f"<{secret[:at]}{end}{secret[at:]}>") == f"<{MARK}>"


def test_data_is_redacted_all_the_way_down_keys_included() -> None:
    secret = "hunter2hunter2"
    data = {"a": [1, None, {"x" + secret: (secret, True, 1.5)}], "b": f"<{secret}>"}
    assert Redactor([secret]).data(data) == {
        "a": [1, None, {f"x{MARK}": [MARK, True, 1.5]}],
        "b": f"<{MARK}>",
    }


def test_a_line_end_in_the_variable_does_not_hide_the_secret() -> None:
    assert Redactor(["abcdefgh1234\n"]).text("key=abcdefgh1234;") == f"key={MARK};"


def test_undecodable_bytes_of_the_environment_are_found_in_what_was_read() -> None:
    raw = b"caf\xe9-caf\xe9-caf\xe9"
    redactor = Redactor([raw.decode("utf-8", "surrogateescape")])
    assert redactor.text(f"<{raw.decode('utf-8', 'replace')}>") == f"<{MARK}>"
    assert redactor.text("<caf%E9-caf%e9-caf%E9>") == f"<{MARK}>"


# Written in two parts, so that nobody takes this file for a leak.
TOKENS = [
    "sk-" + "ant-api03-AbCdEfGhIjKlMnOpQrStUvWxYz0123456789",
    "sk-" + "proj-abcDEF0123456789abcDEF0123456789",
    "sk-" + "0123456789abcdef0123456789abcdef",
    "ghp" + "_0123456789abcdefghijABCDEFGHIJ012345",
    "github" + "_pat_0123456789abcdefghij_ABCDEFGHIJ0123456789",
    "glpat" + "-0123456789abcdefghij",
    "npm" + "_0123456789abcdefghijABCDEFGHIJ012345",
    "hf" + "_abcdefghijklmnopqrstuvwxyzABCDEFGH",
    "xoxb" + "-123456789012-1234567890123-abcdefghijklmnop",
    "AKIA" + "IOSFODNN7QZWXECR",
    "AIza" + "SyA0123456789abcdefghijABCDEFGHIJ01",
    "sk" + "_live_0123456789abcdefghij",
    "eyJ" + "hbGciOiJIUzI1NiJ9.eyJ" + "zdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N_XgL0n3I9PlFUP0THsR8U",
    "hooks.slack.com" + "/services/T0A1B2C3D/B0A1B2C3D/a1B2c3D4e5F6g7H8i9J0k1L2",
]


@pytest.mark.parametrize("token", TOKENS, ids=lambda token: token[:8])
def test_well_known_tokens_need_not_be_known(token: str) -> None:
    redactor = Redactor()
    for text in (
        f"{token}",
        f"KEY={token}",
        f'"{token}"',
        f"https://{token}@example.org/",
        f"a\\n{token}\\n",
    ):
        assert token not in redactor.text(text)
        assert MARK in redactor.text(text)
        assert redactor.doubts(json.dumps(text))


def test_private_keys_need_not_be_known() -> None:
    body = base64.b64encode(random.Random(1).randbytes(600)).decode()
    lines = "\n".join(body[place : place + 64] for place in range(0, len(body), 64))
    key = f"-----BEGIN RSA PRIVATE KEY-----\n{lines}\n-----END RSA PRIVATE KEY-----"
    for text in (key, json.dumps(key), json.dumps(json.dumps(key))):
        out = Redactor().text(f"here: {text} after")
        assert body[100:120] not in out
        assert out.endswith(" after")
    for cut in (f"word\n# {lines[70:]}".replace("\n", "\n# "), lines[200:]):
        out = Redactor().text(f"{cut}\n-----END RSA PRIVATE KEY-----\nafter")
        assert len(out) < 40
        assert out.endswith("after")
    mention = "A key begins with -----BEGIN RSA PRIVATE KEY----- and a line end, then come many characters"
    assert Redactor().text(mention) == mention


@given(st.randoms(use_true_random=False))
def test_hashes_ids_and_images_are_no_tokens(source: random.Random) -> None:
    data = source.randbytes(3000)
    text = "\n".join(
        [
            hashlib.sha256(data).hexdigest(),
            hashlib.sha512(data).hexdigest().upper(),
            str(uuid.UUID(bytes=data[:16])),
            f"data:image/png;base64,{base64.b64encode(data).decode()}",
            base64.urlsafe_b64encode(data[:48]).decode(),
            "class='sk-fading-circle sk-circle-container-wrapper' task-list-item-with-a-long-name-indeed",
            "def test_hf_model_npm_package_ghp_token_and_so_on_for_a_long_time_without_any_end(): ...",
            "the risk-proj-management-of-a-very-long-project-name-with-words and pypi-AgEI",
        ]
    )
    assert Redactor(["a secret of mine"]).text(text) == text


def test_control_sequences_go_and_the_text_stays() -> None:
    text = "\x1b[1;31mred\x1b[0m \x1b]0;title\x07a\x00b\x9b31mc\u202ed\u200be\tf\r\ng \x1b]52;c;Zm9v\nnext"
    assert strip_control(text) == "red abcde\tf\r\ng \nnext"
    assert clean(text) == "red abcde\tf\ng \nnext"
    joined = "नमस्ते می\u200cخواهم 👩\u200d💻 ❤\ufe0f"
    assert strip_control(joined) == joined
    assert Redactor().text("\x1b[32mok\x1b[0m") == "ok"
