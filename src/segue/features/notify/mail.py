"""Sends a notification by email with the standard library's SMTP client, in a daemon thread."""

from __future__ import annotations

import asyncio
import os
import smtplib
import ssl
import threading
from collections.abc import Callable
from concurrent.futures import Future
from email.message import EmailMessage
from email.policy import SMTP
from email.utils import formatdate, make_msgid

from segue.domain.notification import Notification, NotifyError
from segue.features.notify.options import EmailSettings
from segue.system.services import Services

_FAILURES: tuple[tuple[type[Exception], str], ...] = (
    (smtplib.SMTPAuthenticationError, "the server refused the user or the password."),
    (smtplib.SMTPRecipientsRefused, "the server refused the recipients."),
    (smtplib.SMTPSenderRefused, "the server refused the sender."),
    (smtplib.SMTPNotSupportedError, "the server does not support STARTTLS or logging in."),
    (smtplib.SMTPServerDisconnected, "the server did not answer in time, or closed the connection."),
    (smtplib.SMTPException, "the server did not accept the mail."),
    (ssl.SSLError, "the encrypted connection failed; check port, security and the server's certificate."),
    (TimeoutError, "the server did not answer in time."),
    (OSError, "the server could not be reached."),
)


def compose(options: EmailSettings, notification: Notification) -> EmailMessage:
    """Compose the mail. The policy refuses line breaks in headers, should any be left."""
    mail = EmailMessage(policy=SMTP)
    mail["Subject"] = f"Segue: {notification.title}"
    mail["From"] = options.sender
    mail["To"] = ", ".join(options.to)
    mail["Date"] = formatdate(localtime=True)
    mail["Message-ID"] = make_msgid(domain=options.sender.rpartition("@")[2])
    mail["Auto-Submitted"] = "auto-generated"
    parts = (notification.title, notification.text, notification.link)
    mail.set_content("\n\n".join(part for part in parts if part) + "\n")
    return mail


class MailNotifier:
    """Sends mails."""

    Options = EmailSettings
    name = "email"

    def __init__(self, options: EmailSettings, _services: Services) -> None:
        self._options = options
        self.timeout = options.timeout

    async def send(self, notification: Notification) -> None:
        """Deliver it to the mail server."""
        options = self._options
        password = os.environ.get(options.password_env, "")
        if options.user and not password:
            raise NotifyError(f"the variable {options.password_env} with the password is not set.")
        mail = compose(options, notification)
        try:
            await _run_in_thread(lambda: _deliver(options, password, mail))
        except Exception as error:
            words = next((words for kind, words in _FAILURES if isinstance(error, kind)), None)
            if words is None:
                raise
            raise NotifyError(words) from None


def _deliver(options: EmailSettings, password: str, mail: EmailMessage) -> None:
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


async def _run_in_thread(work: Callable[[], None]) -> None:
    """Not in a pool: at exit a program would wait for a server that answers one byte at a time."""
    ended: Future[None] = Future()
    ended.set_running_or_notify_cancel()  # the caller may stop waiting; the work continues to its end

    def run() -> None:
        try:
            work()
        except Exception as error:
            ended.set_exception(error)
        else:
            ended.set_result(None)

    threading.Thread(target=run, name="segue-mail", daemon=True).start()
    await asyncio.wrap_future(ended)
