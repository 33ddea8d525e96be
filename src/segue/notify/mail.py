"""Sends a notice by email: the standard library's SMTP in a thread that nobody has to wait for."""

from __future__ import annotations

import asyncio
import contextlib
import os
import smtplib
import ssl
import threading
from collections.abc import Callable
from email.message import EmailMessage
from email.policy import SMTP
from email.utils import formatdate, make_msgid

from segue.notify.notice import Notice, Notifier, NotTold
from segue.notify.options import EmailSettings

_FAILURES: tuple[tuple[type[Exception], str], ...] = (
    (smtplib.SMTPAuthenticationError, "the server refused the user or the password."),
    (smtplib.SMTPRecipientsRefused, "the server refused the recipients."),
    (smtplib.SMTPSenderRefused, "the server refused the sender."),
    (smtplib.SMTPNotSupportedError, "the server does not offer what was asked for (STARTTLS or a login)."),
    (smtplib.SMTPServerDisconnected, "the server did not answer in time, or hung up."),
    (smtplib.SMTPException, "the server did not take the mail."),
    (ssl.SSLError, "the encrypted connection failed; check port, security and the server's certificate."),
    (TimeoutError, "the server did not answer in time."),
    (OSError, "the server could not be reached."),
)


def message(options: EmailSettings, notice: Notice) -> EmailMessage:
    """The mail. The policy refuses line ends in headers, should any be left."""
    mail = EmailMessage(policy=SMTP)
    mail["Subject"] = f"Segue: {notice.title}"
    mail["From"] = options.sender
    mail["To"] = ", ".join(options.to)
    mail["Date"] = formatdate(localtime=True)
    mail["Message-ID"] = make_msgid(domain=options.sender.rpartition("@")[2])
    mail["Auto-Submitted"] = "auto-generated"
    mail.set_content("\n\n".join(part for part in (notice.title, notice.text, notice.link) if part) + "\n")
    return mail


def teller(options: EmailSettings) -> Notifier:
    """A notifier with these options."""

    async def tell(notice: Notice) -> None:
        password = os.environ.get(options.password_env, "")
        if options.user and not password:
            raise NotTold(f"the variable {options.password_env} that should hold the password is not set.")
        mail = message(options, notice)
        try:
            await _in_thread(lambda: _send(options, password, mail))
        except Exception as error:
            said = next((words for kind, words in _FAILURES if isinstance(error, kind)), None)
            if said is None:
                raise
            raise NotTold(said) from None

    return tell


def _send(options: EmailSettings, password: str, mail: EmailMessage) -> None:
    tls = None if options.security == "none" else ssl.create_default_context()
    where = (options.host, options.port)
    if options.security == "ssl":
        server: smtplib.SMTP = smtplib.SMTP_SSL(*where, timeout=options.timeout, context=tls)
    else:
        server = smtplib.SMTP(*where, timeout=options.timeout)
    with server:
        if options.security == "starttls":
            server.starttls(context=tls)
        if options.user:
            server.login(options.user, password)
        server.send_message(mail)


async def _in_thread(work: Callable[[], None]) -> None:
    """Not in a pool: at its end a program would wait for a server that answers one byte at a time."""
    loop = asyncio.get_running_loop()
    ended: asyncio.Future[None] = loop.create_future()

    def settle(error: Exception | None) -> None:
        if ended.done():
            return
        if error is None:
            ended.set_result(None)
        else:
            ended.set_exception(error)

    def run() -> None:
        caught: Exception | None = None
        try:
            work()
        except Exception as error:
            caught = error
        with contextlib.suppress(RuntimeError):  # nobody waits any more
            loop.call_soon_threadsafe(settle, caught)

    threading.Thread(target=run, name="segue-mail", daemon=True).start()
    await ended
