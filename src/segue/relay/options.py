"""The settings of the relay: the table `[relay]` with the actions it may run."""

from __future__ import annotations

import re
import string
from pathlib import Path
from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StringConstraints, model_validator

from segue.domain.argv import fill

LOOPBACK = ("127.0.0.1", "localhost", "::1")


def _pattern(text: str) -> str:
    try:
        re.compile(text)
    except re.error as error:
        raise ValueError(f"{text!r} is no regular expression: {error}") from None
    return text


def _folder(text: str) -> str:
    if not Path(text).expanduser().is_absolute():
        raise ValueError(f"{text!r} must be absolute or begin with ~")
    return text


def _placeholders(argument: str) -> set[str]:
    return {name for _, name, _, _ in string.Formatter().parse(argument) if name}


Name = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}$")]
Parameter = Annotated[str, StringConstraints(pattern=r"^[A-Za-z_][A-Za-z0-9_]{0,63}$")]
Pattern = Annotated[str, AfterValidator(_pattern)]


class ActionSettings(BaseModel):
    """One table `[relay.actions.NAME]`: a command that may be run from afar."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    argv: tuple[str, ...] = Field(
        min_length=1, description="The program and its arguments; `{name}` stands for a parameter."
    )
    description: str = Field("", description="What it does, for whoever asks for the list of actions.")
    parameters: dict[Parameter, Pattern] = Field(
        {}, description="Parameters by name, with the regular expression that the whole value must match."
    )
    cwd: Annotated[str, AfterValidator(_folder)] = Field("~", description="The folder it runs in.")
    timeout: float = Field(60, gt=0, description="Seconds it may take; then it is ended with its children.")
    grace: float = Field(3, ge=0, description="Seconds between interrupt, terminate and kill.")
    output_bytes: int = Field(
        64 * 1024,
        ge=0,
        le=1024**2,
        description="Bytes of each output stream that are sent back, the last.",
    )
    printed_bytes: int = Field(
        100 * 1024**2, ge=1024, description="Bytes it may print in all; beyond that it is ended."
    )
    confirm: Literal["none", "terminal", "desktop", "page"] = Field(
        "none",
        description="Whether you are asked before it runs: on the relay's terminal, by a dialog, or on the "
        "page of `segue serve`.",
    )
    concurrency: int = Field(1, ge=1, le=100, description="How many of it may run at once.")
    pass_env: tuple[str, ...] = Field((), description="Environment variables it may see.")
    env: dict[str, str] = Field({}, description="Environment variables to set for it.")
    end_with_client: bool = Field(False, description="End it when whoever asked for it hangs up.")

    @model_validator(mode="after")
    def _fits_together(self) -> ActionSettings:
        for argument in self.argv:
            fill(argument, dict.fromkeys(self.parameters, ""))
        if not self.argv[0] or _placeholders(self.argv[0]):
            raise ValueError("the program cannot be empty or come from a parameter")
        if any("\0" in argument for argument in self.argv):
            raise ValueError("an argument cannot hold a null character")
        used = {name for argument in self.argv for name in _placeholders(argument)}
        if unused := sorted(self.parameters.keys() - used):
            raise ValueError(f"parameter {unused[0]} is not used in argv")
        return self


class RelaySettings(BaseModel):
    """The table `[relay]`."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    host: str = Field("127.0.0.1", min_length=1, description="The address the relay listens at.")
    port: int = Field(8754, ge=0, le=65535, description="Its port; 0 is any free one.")
    certfile: str = Field("", description="The certificate for TLS, a PEM file.")
    keyfile: str = Field("", description="The key of the certificate, a PEM file.")
    behind_tunnel: bool = Field(
        False, description="Listen beyond this machine without TLS, because a tunnel encrypts on the way."
    )
    hosts: tuple[str, ...] = Field(
        (), description="Names the relay is called by, beside its address; others are refused."
    )
    rate: int = Field(60, ge=1, description="Calls per minute; more are refused.")
    confirm_timeout: float = Field(60, gt=0, description="Seconds you have to confirm; silence means no.")
    keep_days: float = Field(7, gt=0, description="Days for which results are kept by Idempotency-Key.")
    audit_bytes: int = Field(
        10 * 1024**2, ge=4096, description="Bytes of the audit log before a new file is begun."
    )
    audit_files: int = Field(5, ge=1, le=100, description="How many old files of the audit log are kept.")
    actions: dict[Name, ActionSettings] = Field({}, description="What may be run: see docs/relay.md.")

    @property
    def is_local(self) -> bool:
        """Whether only this machine can reach it."""
        return self.host in LOOPBACK

    @model_validator(mode="after")
    def _is_safe(self) -> RelaySettings:
        if bool(self.certfile) != bool(self.keyfile):
            raise ValueError("certfile and keyfile belong together")
        if not (self.is_local or self.certfile or self.behind_tunnel):
            raise ValueError(
                f"listening at {self.host} needs certfile and keyfile, or behind_tunnel = true "
                "if a tunnel encrypts on the way"
            )
        return self
