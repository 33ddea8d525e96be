"""Tokens by their shape, encodings they come in, what stands before them, and texts that have none."""

from __future__ import annotations

import base64
import hashlib
import json
import random
import uuid
from collections.abc import Callable
from urllib.parse import quote

_RANDOM = random.Random(33)
_LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"


def _make(length: int, letters: str = _LETTERS) -> str:
    return "".join(_RANDOM.choices(letters, k=length))


def _armour(kind: str, data: bytes, width: int = 64) -> str:
    body = base64.b64encode(data).decode()
    lines = [body[place : place + width] for place in range(0, len(body), width)]
    return "\n".join([f"-----BEGIN {kind}-----", *lines, f"-----END {kind}-----"])


# Made while the tests run, so that nobody takes this file for a leak.
SHAPES = {
    "anthropic": "sk-" + "ant-api03-" + _make(80),
    "openai": "sk-" + "proj-" + _make(60),
    "github": "ghp" + "_" + _make(36),
    "github, fine": "github" + "_pat_" + _make(22) + "_" + _make(59),
    "npm": "npm" + "_" + _make(36),
    "pypi": "pypi" + "-AgEI" + _make(120),
    "hugging face": "hf" + "_" + _make(34),
    "slack": "xoxb" + "-123456789012-1234567890123-" + _make(24),
    "stripe": "sk" + "_live_" + _make(24),
    "aws": "AKIA" + _make(15, "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567") + "Q",
    "google": "AIza" + "Sy" + _make(33),
    "jwt": "eyJ" + _make(34) + ".eyJ" + _make(60) + "." + _make(43),
    "rsa": _armour("RSA " + "PRIVATE KEY", _RANDOM.randbytes(600)),
    "openssh": _armour("OPENSSH " + "PRIVATE KEY", _RANDOM.randbytes(300), 70),
}
KNOWN = {
    "password": "kn0wn/s3cret&value+1",
    "short": "hunter-22",
    "hex": _RANDOM.randbytes(20).hex(),
    "words": "correct horse battery staple",
}


def _b64(text: str, before: bytes = b"", after: bytes = b"") -> str:
    return base64.b64encode(before + text.encode() + after).decode()


def wrapped(text: str, width: int, prefix: str, suffix: str = "") -> str:
    """Return a text in lines of a width; what begins and ends a key stays whole."""
    lines = [
        line[place : place + width] if "-----" not in line else line
        for line in text.split("\n")
        for place in range(0, 1 if "-----" in line else len(line), width)
    ]
    return (suffix + "\n" + prefix).join(lines)


def _each(form: str) -> Callable[[str], str]:
    return lambda text: "".join(form.format(byte, chr(byte)) for byte in text.encode())


ENCODINGS: dict[str, Callable[[str], str]] = {
    "plain": str,
    "URL": lambda text: quote(text, safe=""),
    "URL, every one": _each("%{:02X}"),
    "HTML": _each("&#{};"),
    "JSON": lambda text: json.dumps(text)[1:-1],
    "JSON, twice": lambda text: json.dumps(json.dumps(text)[1:-1])[1:-1],
    "shell, hex": _each("\\x{:02x}"),
    "octal dump": lambda text: " ".join(f"{byte:03o}" for byte in text.encode()),
    "hex": lambda text: text.encode().hex(),
    "hex, spaced": lambda text: text.encode().hex(" "),
    "hex, wrapped": lambda text: wrapped(text.encode().hex(), 60, ""),
    "base64": _b64,
    "base64, basic": lambda text: _b64(text, b"user:"),
    "base64, in URLs": lambda text: base64.urlsafe_b64encode(text.encode()).decode(),
    "base64, UTF-16": lambda text: base64.b64encode(text.encode("utf-16-le")).decode(),
    "base64, twice": lambda text: _b64(_b64(text)),
    "base64, wrapped": lambda text: wrapped(_b64(text), 76, ""),
    "base64, in YAML": lambda text: wrapped(_b64(text), 64, "    "),
    "base64, in a diff": lambda text: wrapped(_b64(text), 64, "+"),
    "base64, in JSON": lambda text: json.dumps(wrapped(_b64(text), 76, ""))[1:-1],
    "wrapped in a diff": lambda text: wrapped(text, 26, "+"),
    "wrapped in a box": lambda text: wrapped(text, 24, "│ ", " │"),
    "in a diff": lambda text: text.replace("\n", "\n+"),
    "in a comment": lambda text: text.replace("\n", "\n# "),
}
CHANGED: dict[str, Callable[[str], str]] = {
    "upper": str.upper,
    "lower": str.lower,
}
"""Changes of case: only a known secret is recognised by them."""

BEFORE = {
    **{
        sign: sign
        for sign in ("+", "-", '"', "'", "=", ":", "|", "#", ">", "(", "[", "{", ",", ";", "/", "@", "`")
    },
    "nothing": "",
    "diff": "--- a/x\n+++ b/x\n@@ -1 +1,2 @@\n+",
    "assigned in a diff": "+export KEY=",
    "taken out": " a\n-",
    "JSON": '{"key": "',
    "JSON in JSON": '{\\"key\\": \\"',
    "line end in JSON": "first line\\n",
    "tab in JSON": "\\t",
    "colour": "\x1b[31m",
    "URL": "https://example.org/?key%3D",
    "shell": "KEY\\=",
}


def _png() -> str:
    return base64.b64encode(random.Random(4).randbytes(4000)).decode()


def _digest(text: str) -> bytes:
    return hashlib.sha512(text.encode()).digest()


def honest() -> dict[str, str]:
    """Texts without a secret, which stay as they are, by what they are."""
    source = random.Random(5)
    hashes = [hashlib.sha1(str(number).encode()).hexdigest() for number in range(20)]
    dump = [
        f"{16 * row:08x}  {source.randbytes(8).hex(' ')}  {source.randbytes(8).hex(' ')}  |................|"
        for row in range(20)
    ]
    return {
        "git log": "\n".join(f"commit {one}\nAuthor: A <a@example.org>\n\n    Fix it\n" for one in hashes),
        "git diff": f"diff --git a/f.py b/f.py\nindex {hashes[0][:7]}..{hashes[1][:7]} 100644\n"
        "--- a/f.py\n+++ b/f.py\n@@ -1,2 +1,3 @@ def task-force-and-sk-names():\n"
        "-import os\n+import sys\n+-----------------------------\n",
        "uuids": "\n".join(str(uuid.UUID(bytes=source.randbytes(16))) for _ in range(20)),
        "image": f"![x](data:image/png;base64,{_png()})",
        "package-lock.json": json.dumps(
            {
                f"node_modules/p{number}": {
                    "version": "1.2.3",
                    "resolved": f"https://registry.example.org/p{number}/-/p-1.tgz",
                    "integrity": f"sha512-{base64.b64encode(_digest(str(number))).decode()}",
                }
                for number in range(10)
            },
            indent=2,
        ),
        "go.sum": "\n".join(
            f"example.org/m v1.{number}.0 h1:{base64.b64encode(_digest(str(number))[:32]).decode()}"
            for number in range(20)
        ),
        "hexdump": "\n".join(dump),
        "C array": "static const unsigned char logo[] = {"
        + ", ".join(f"0x{byte:02x}" for byte in source.randbytes(256))
        + "};",
        "docs": "Set `password: changeme` and `API_KEY=your-key-here`; "
        'a key begins with "sk-" or `ghp_`, then come 36 letters.',
        "code about keys": 'if text.startswith("-----BEGIN RSA PRIVATE KEY-----") and '
        'text.rstrip().endswith("-----END RSA PRIVATE KEY-----"):\n'
        "    return load(text)\n",
        "placeholders": "AKIAIOSFODNN7EXAMPLE ghp_xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx sk-ant-... "
        "AKIA**************** glpat-<your-token>",
        "public key": "ssh-ed25519 "
        + "AAAAC3NzaC1lZDI1NTE5AAAA"
        + base64.b64encode(source.randbytes(33)).decode()
        + " me@example.org\n"
        + _armour("CERTIFICATE", source.randbytes(500))
        + "\n"
        + _armour("PUBLIC KEY", source.randbytes(300)),
    }
