"""No secret passes the redactor, in no form in which it is looked for, and honest text stays."""

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
from segue.system.redact import MARK, Redactor, unfinished
from tests.system.shapes import FORMS, KNOWN, SECRETS, SHAPE_FORMS, SHAPES, armour, pieces, spelt

# Few letters, so that secrets overlap, begin alike and repeat; no brackets, which the mark itself has.
ALPHABET = 'ab%/"\\é '
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=40)


@given(SECRETS.flatmap(lambda secret: st.tuples(st.just(secret), spelt(secret))), TEXTS, TEXTS)
@example(("p@ss/w0rd&more", "p%40ss%2fw0rd%26more"), "", "\x1b[0m")
def test_no_secret_passes_in_no_form(case: tuple[str, str], before: str, after: str) -> None:
    secret, form = case
    redactor = Redactor([secret, "another secret"])
    text = f"{before}<{form}>{after}"
    out = redactor.text(text)
    assert MARK in out
    assert form not in out
    assert secret not in out
    assert redactor.doubts(json.dumps({"text": text}, ensure_ascii=False))
    assert redactor.data([{form: (form, 1, None)}]) == [{redactor.text(form): [redactor.text(form), 1, None]}]


@given(st.text(ALPHABET, max_size=60), st.lists(st.text(ALPHABET, min_size=8, max_size=14), max_size=4))
def test_secrets_that_overlap_and_begin_alike(text: str, secrets: list[str]) -> None:
    for secret in secrets:
        text += secret
    out = Redactor(secrets).text(text)
    for secret in secrets:
        assert len(secret.strip()) < 8 or secret.strip() not in out


@pytest.mark.parametrize("name", [name for name in FORMS if "base64" not in name])
def test_only_the_secret_goes(name: str) -> None:
    secret = 'p@ss/wörd&1 "more'
    assert Redactor([secret]).text(f"pass={FORMS[name](secret)};") == f"pass={MARK};"


@pytest.mark.parametrize("name", SHAPES)
def test_a_shape_need_not_be_known(name: str) -> None:
    redactor = Redactor()
    for form in SHAPE_FORMS.values():
        for before in ("", '"', "KEY=", "https://", '{\\"key\\": \\"', "line\\n", "\x1b[31m"):
            encoded = form(SHAPES[name])
            out = redactor.text(f"It says:\n{before}{encoded}\nand more")
            assert out.endswith("\nand more")
            assert MARK in out
            assert not [piece for piece in pieces(SHAPES[name], encoded) if piece in out]
            assert redactor.doubts(json.dumps(before + encoded))


def test_a_key_whose_beginning_or_end_was_cut_is_found() -> None:
    key = SHAPES["rsa"].split("\n")
    for cut in (key[3:], key[:-3], [f"# {line}" for line in key[3:]]):
        out = Redactor().text("word\n" + "\n".join(cut) + "\nafter this")
        assert key[5] not in out
        assert out.endswith("after this")
    mention = "A key begins with -----BEGIN RSA PRIVATE KEY----- and a line end, then come many characters"
    assert Redactor().text(mention) == mention


def test_what_may_be_half_a_key_is_held_back() -> None:
    text = f"It says:\n{SHAPES['rsa']}\nand more\n"
    begin, end = text.index("-----BEGIN"), text.index("and more")
    for place in range(begin + 40, end - 40, 30):
        assert unfinished(text[:place]) == begin
    assert unfinished(text) == len(text)
    assert Redactor(["correct horse"]).unfinished("it is correct hor") == len("it is ")


def test_a_secret_behind_escapes_and_line_ends_of_the_variable_is_found() -> None:
    secret = KNOWN["password"]
    assert Redactor([f"{secret}\n"]).text(f"key={secret[:9]}\x1b[31m{secret[9:]};") == f"key={MARK};"
    raw = b"caf\xe9-caf\xe9-caf\xe9"
    redactor = Redactor([raw.decode("utf-8", "surrogateescape")])
    assert redactor.text(f"<{raw.decode('utf-8', 'replace')}>") == f"<{MARK}>"
    assert redactor.text("<caf%E9-caf%E9-caf%E9>") == f"<{MARK}>"


@given(st.randoms(use_true_random=False))
def test_honest_text_stays(source: random.Random) -> None:
    data = source.randbytes(3000)
    text = "\n".join(
        [
            hashlib.sha256(data).hexdigest(),
            hashlib.sha512(data).hexdigest().upper(),
            str(uuid.UUID(bytes=data[:16])),
            f"data:image/png;base64,{base64.b64encode(data).decode()}",
            f'"integrity": "sha512-{base64.b64encode(data[:64]).decode()}"',
            f"ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAA{base64.b64encode(data[:33]).decode()} me@example.org",
            armour("CERTIFICATE", data[:500]),
            armour("PUBLIC KEY", data[:300]),
            "class='sk-fading-circle sk-circle-container-wrapper' task-list-item-with-a-long-name-indeed",
            "def test_hf_model_npm_package_ghp_token_and_so_on_for_a_long_time_without_any_end(): ...",
            "AKIAIOSFODNN7EXAMPLE ghp_xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx glpat-<your-token> sk-ant-...",
            'if text.startswith("-----BEGIN RSA PRIVATE KEY-----") and text.endswith('
            '"-----END RSA PRIVATE KEY-----"): pass',
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
