"""The table `[relay]`, with the actions the relay may run, and its token, which is stored as a hash."""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
import string
import time
from pathlib import Path
from typing import Annotated

import msgspec
from msgspec import Meta

from segue.domain.options import (
    Amount,
    Argv,
    OptionError,
    Options,
    Port,
    Seconds,
    Text,
    fill_placeholders,
)
from segue.system.secrets import read_secret, write_secret

LOOPBACK = ("127.0.0.1", "localhost", "::1")

ActionName = Annotated[
    str,
    Meta(
        pattern=r"^[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}$",
        extra={"expected": "a name of letters, digits and _.-"},
    ),
]
ParameterName = Annotated[
    str,
    Meta(
        pattern=r"^[A-Za-z_][A-Za-z0-9_]{0,63}$", extra={"expected": "a parameter of letters, digits and _"}
    ),
]


class ActionSettings(Options, frozen=True):
    """One table `[relay.actions.NAME]`: a command that may be run remotely."""

    argv: Argv
    """The program and its arguments; `{name}` stands for a parameter."""
    description: str = ""
    """What it does, for callers that ask for the list of actions."""
    parameters: dict[ParameterName, str] = {}
    """Parameters by name, each with a regular expression that the value must match."""
    cwd: str = "~"
    """The folder it runs in."""
    timeout: Seconds = 60
    """Seconds it may take; then it is stopped with its children."""
    output_bytes: Annotated[int, Meta(ge=0, le=1024**2)] = 64 * 1024
    """Bytes of each output stream to send back: the last ones."""
    pass_env: tuple[str, ...] = ()
    """Environment variables it may see."""
    env: dict[str, str] = {}
    """Environment variables to set for it."""

    def __post_init__(self) -> None:
        if not Path(self.cwd).expanduser().is_absolute():
            raise OptionError("cwd", f"{self.cwd!r} must be absolute or begin with ~")
        for name, pattern in self.parameters.items():
            try:
                re.compile(pattern)
            except re.error as error:
                message = f"{pattern!r} is not a regular expression: {error}"
                raise OptionError(f"parameters.{name}", message) from None
        self._check_argv()

    def _check_argv(self) -> None:
        for argument in self.argv:
            fill_placeholders(argument, dict.fromkeys(self.parameters, ""))
        if _find_placeholders(self.argv[0]):
            raise OptionError("argv", "the program cannot come from a parameter")
        used = {name for argument in self.argv for name in _find_placeholders(argument)}
        if unused := sorted(self.parameters.keys() - used):
            raise OptionError(f"parameters.{unused[0]}", "is not used in argv")


def _find_placeholders(argument: str) -> set[str]:
    return {name for _, name, _, _ in string.Formatter().parse(argument) if name}


class RelaySettings(Options, frozen=True):
    """The table `[relay]`."""

    host: Text = "127.0.0.1"
    """The address the relay listens on."""
    port: Port = 8754
    """Its port; 0 picks a free one."""
    behind_tunnel: bool = False
    """Listen beyond this machine, because a tunnel or a proxy encrypts."""
    hosts: tuple[str, ...] = ()
    """More host names the relay answers to; others are refused."""
    keep_days: Amount = 7
    """Days to keep results, found by their Idempotency-Key."""
    actions: dict[ActionName, ActionSettings] = {}
    """What may be run: see `docs/guides/relay.md`."""

    @property
    def is_local(self) -> bool:
        """True if only this machine can reach it."""
        return self.host in LOOPBACK

    def __post_init__(self) -> None:
        if not (self.is_local or self.behind_tunnel):
            raise OptionError(
                "host",
                f"listening on {self.host} needs behind_tunnel = true: a tunnel or a proxy must encrypt",
            )


_PREFIX = "segue-relay-"


class StoredToken(msgspec.Struct, frozen=True):
    """What is stored of a token."""

    sha256: str
    made: float


class TokenFile:
    """The file with the token's hash."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "token.json"

    def created(self) -> float | None:
        """Return when the token was created; None if there is none."""
        known = self._read()
        return known.made if known else None

    def rotate(self) -> str:
        """Create a new token; the old one is refused from now on."""
        token = _PREFIX + secrets.token_urlsafe(32)
        write_secret(self.path, msgspec.json.encode(StoredToken(_digest(token), round(time.time(), 3))))
        return token

    def accepts(self, token: str) -> bool:
        """Return whether this is the token, in constant time."""
        known = self._read()
        return known is not None and hmac.compare_digest(known.sha256.encode(), _digest(token).encode())

    def _read(self) -> StoredToken | None:
        # Not cached: a running relay must notice at once that the token was rotated.
        try:
            return msgspec.json.decode(read_secret(self.path) or b"", type=StoredToken)
        except msgspec.DecodeError:
            return None


def _digest(token: str) -> str:
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).hexdigest()
