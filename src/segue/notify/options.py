"""The settings of the notifiers: the table `[notify]`."""

from __future__ import annotations

import re
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, SecretStr, field_validator, model_validator

from segue.notify.notification import Kind

_ADDRESS = re.compile(r"[^\s@<>,;:\"()\[\]\\]+@[^\s@<>,;:\"()\[\]\\]+")
_LOOPBACK = ("127.0.0.1", "localhost", "::1")


class TerminalSettings(BaseModel):
    """The table `[notify.terminal]`."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    enabled: bool = Field(False, description="Ring the bell and write a line on stderr.")


class DesktopSettings(BaseModel):
    """The table `[notify.desktop]`."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    enabled: bool = Field(False, description="Show a notification of the desktop.")
    timeout: float = Field(10, gt=0, description="Seconds the desktop's program may take.")


class WebhookSettings(BaseModel):
    """The table `[notify.webhook]`."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    url: SecretStr | None = Field(None, description="Where notices are posted as JSON; none if unset.")
    secret_env: str = Field(
        "", description="The environment variable with the key that signs each notice; unsigned if empty."
    )
    attempts: int = Field(4, ge=1, le=20, description="How often one notice is tried.")
    timeout: float = Field(20, gt=0, description="Seconds for one notice, all attempts together.")

    @field_validator("url")
    @classmethod
    def _is_http(cls, url: SecretStr | None) -> SecretStr | None:
        # The message must not quote the address: for Slack and others it is the secret itself.
        if url is not None and not re.fullmatch(r"https?://[^\s/][^\s]*", url.get_secret_value()):
            raise ValueError("must begin with https:// or http:// and hold no blanks")
        return url


class EmailSettings(BaseModel):
    """The table `[notify.email]`."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    host: str = Field("", pattern=r"^\S*$", description="The SMTP server; no mail is sent if empty.")
    port: int = Field(587, ge=1, le=65535, description="Its port: usually 587 for starttls, 465 for ssl.")
    security: Literal["starttls", "ssl", "none"] = Field(
        "starttls", description="`starttls`, `ssl`, or `none` for a server on this machine."
    )
    user: str = Field("", description="The name to log in with; no login if empty.")
    password_env: str = Field(
        "SMTP_PASSWORD", description="The environment variable that holds the password."
    )
    sender: str = Field("", description="The address mails come from.")
    to: tuple[str, ...] = Field((), description="The addresses mails go to.")
    timeout: float = Field(20, gt=0, description="Seconds for one mail.")

    @model_validator(mode="after")
    def _is_whole(self) -> EmailSettings:
        if not self.host:
            return self
        if not self.to:
            raise ValueError("to names nobody")
        for address in (self.sender, *self.to):
            if not _ADDRESS.fullmatch(address):
                raise ValueError(f"{address!r} is no address such as me@example.org")
        if self.user and self.security == "none" and self.host not in _LOOPBACK:
            raise ValueError("a password is not sent without encryption: use starttls or ssl")
        return self


class NotifySettings(BaseModel):
    """The table `[notify]`: what people are told, and how."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    on: tuple[Kind, ...] = Field(
        ("needs_human", "run_finished", "parked", "reminder"), description="What is told."
    )
    terminal: TerminalSettings = TerminalSettings()  # type: ignore[call-arg]
    desktop: DesktopSettings = DesktopSettings()  # type: ignore[call-arg]
    webhook: WebhookSettings = WebhookSettings()  # type: ignore[call-arg]
    email: EmailSettings = EmailSettings()  # type: ignore[call-arg]
