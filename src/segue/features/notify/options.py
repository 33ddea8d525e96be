"""The table `[notify]`: which notifications are sent, and how."""

import re
from typing import Annotated, Any, Literal

from msgspec import Meta

from segue.domain.notification import NotificationKind
from segue.domain.options import OptionError, Options, Seconds, Secret

_ADDRESS = re.compile(r"[^\s@<>,;:\"()\[\]\\]+@[^\s@<>,;:\"()\[\]\\]+")
_LOOPBACK = ("127.0.0.1", "localhost", "::1")


def _check_web_address(address: str | None, name: str) -> None:
    # The message must not quote the address: for Slack and others it is the secret itself.
    if address is not None and not re.fullmatch(r"https?://[^\s/][^\s]*", address):
        raise OptionError(name, "must begin with https:// or http:// and contain no blanks")


class TerminalSettings(Options, frozen=True):
    """The table `[notify.terminal]`."""

    enabled: bool = False
    """Ring the bell and write a line to stderr."""


class DesktopSettings(Options, frozen=True):
    """The table `[notify.desktop]`."""

    enabled: bool = False
    """Show a desktop notification."""


class WebhookSettings(Options, frozen=True):
    """The table `[notify.webhook]`."""

    url: Secret | None = None
    """Where to post notifications as JSON; none are posted if unset."""
    secret_env: str = ""
    """The environment variable with the key that signs them; unsigned if empty."""
    timeout: Seconds = 20
    """Seconds for one notification, all attempts together."""

    def __post_init__(self) -> None:
        _check_web_address(self.url.reveal() if self.url else None, "url")


class SlackSettings(Options, frozen=True):
    """The table `[notify.slack]`."""

    url: Secret | None = None
    """The incoming webhook of a Slack app; nothing is posted if unset."""
    timeout: Seconds = 20
    """Seconds for one notification, all attempts together."""

    def __post_init__(self) -> None:
        _check_web_address(self.url.reveal() if self.url else None, "url")


class NtfySettings(Options, frozen=True):
    """The table `[notify.ntfy]`."""

    topic: Secret | None = None
    """The topic to publish to; nothing is published if unset. Anyone who knows it can read it."""
    url: str = "https://ntfy.sh"
    """The ntfy server."""
    token_env: str = ""
    """The environment variable with an access token of the server; none is sent if empty."""
    timeout: Seconds = 20
    """Seconds for one notification, all attempts together."""

    def __post_init__(self) -> None:
        _check_web_address(self.url, "url")
        if self.topic is not None and not re.fullmatch(r"[-_A-Za-z0-9]{1,64}", self.topic.reveal()):
            raise OptionError("topic", "must be 1 to 64 letters, digits, - or _")


class EmailSettings(Options, frozen=True):
    """The table `[notify.email]`."""

    host: Annotated[str, Meta(pattern=r"^\S*$", extra={"expected": "a host name"})] = ""
    """The SMTP server; no mail is sent if empty."""
    port: Annotated[int, Meta(ge=1, le=65535)] = 587
    """Its port: usually 587 for starttls, 465 for ssl."""
    security: Literal["starttls", "ssl", "none"] = "starttls"
    """`starttls`, `ssl`, or `none` for a server on this machine."""
    user: str = ""
    """The user to log in as; no login if empty."""
    password_env: str = "SMTP_PASSWORD"
    """The environment variable with the password."""
    sender: str = ""
    """The address mails are sent from."""
    to: tuple[str, ...] = ()
    """The addresses mails are sent to."""
    timeout: Seconds = 20
    """Seconds for one mail."""

    def __post_init__(self) -> None:
        if not self.host:
            return
        if not self.to:
            raise OptionError("to", "names nobody")
        for address in (self.sender, *self.to):
            if not _ADDRESS.fullmatch(address):
                raise ValueError(f"{address!r} is not an address such as me@example.org")
        if self.user and self.security == "none" and self.host not in _LOOPBACK:
            raise OptionError("security", "a password is not sent without encryption: use starttls or ssl")


class NotifySettings(Options, frozen=True):
    """The table `[notify]`: which notifications are sent, and how."""

    on: tuple[NotificationKind, ...] = ("needs_human", "run_finished", "parked", "stuck", "reminder")
    """What to notify about."""
    terminal: TerminalSettings = TerminalSettings()
    desktop: DesktopSettings = DesktopSettings()
    webhook: WebhookSettings = WebhookSettings()
    email: EmailSettings = EmailSettings()
    slack: SlackSettings = SlackSettings()
    ntfy: NtfySettings = NtfySettings()

    def switched_on(self) -> dict[str, Options]:
        """Return the options of the built-in notifiers that are in use, by name."""
        found: dict[str, tuple[Options, object]] = {
            "terminal": (self.terminal, self.terminal.enabled),
            "desktop": (self.desktop, self.desktop.enabled),
            "webhook": (self.webhook, self.webhook.url is not None),
            "email": (self.email, self.email.host),
            "slack": (self.slack, self.slack.url is not None),
            "ntfy": (self.ntfy, self.ntfy.topic is not None),
        }
        return {name: options for name, (options, is_on) in found.items() if is_on}


Notifiers = Annotated[
    dict[str, dict[str, Any]],
    Meta(description="Options per notifier that is a plug-in; naming one switches it on."),
]
