"""Notifications: bounded and harmless text, and each notifier against a real counterpart."""

from __future__ import annotations

import asyncio
import email
import email.policy
import hashlib
import hmac
import json
import sys
from pathlib import Path
from typing import Any

import hypothesis
import pytest
from hypothesis import given
from hypothesis import strategies as st

from segue.domain.notification import KINDS, Notification
from segue.domain.options import OptionError, read_options
from segue.domain.text import plain, plain_lines
from segue.features.notify.mail import compose
from segue.features.notify.options import EmailSettings, NotifySettings
from segue.features.notify.send import notify, sanitize
from segue.ports import Notifier
from segue.runtime import registry
from segue.system.process.processes import Processes
from segue.system.redact import Redactor
from segue.system.services import Services
from tests.features.notify.servers import mail_server, webhook
from tests.shebang import shebang

NASTY = Notification(
    "needs_human",
    "Done\r\nBcc: all@example.org\n\x1b]0;owned\x07 \u202egnp",
    "<!channel> & <b>text</b>\nsecond line\x00 with hunter2hunter2",
    "javascript:alert(1)",
)


def settings(**tables: Any) -> NotifySettings:
    return read_options(NotifySettings, tables)


def make(options: NotifySettings) -> dict[str, Notifier]:
    services = Services(Path.cwd(), Path.cwd(), Processes(), Redactor([]))
    tables = options.switched_on()
    return {name: registry.load("notifiers", name)(table, services) for name, table in tables.items()}


def send(options: NotifySettings, notification: Notification) -> list[str]:
    return asyncio.run(notify(make(options), notification, Redactor(["hunter2hunter2"]), options.on))


def mail_settings(port: int, **more: Any) -> dict[str, Any]:
    given = {"host": "localhost", "port": port, "security": "none", "sender": "me@example.org"}
    return {**given, "to": ["you@example.org", "others@example.org"], "timeout": 10, **more}


@hypothesis.settings(deadline=None)
@given(st.text(max_size=3000), st.text(max_size=9000), st.text(max_size=60))
def test_whatever_an_agent_says_is_bounded_and_on_its_lines(title: str, text: str, link: str) -> None:
    safe = sanitize(Notification("reminder", title, text, link), Redactor([]))
    assert 0 < len(safe.title) <= 120
    assert len(safe.text) <= 2000
    assert safe.title == plain(safe.title, 120)
    assert len(safe.title.splitlines()) == 1
    assert safe.text == plain_lines(safe.text, 2000)
    assert "\r" not in safe.text + safe.link
    assert safe.link == "" or safe.link.startswith(("http://", "https://"))
    safe.title.encode()
    mail = compose(read_options(EmailSettings, mail_settings(25)), safe)
    read = email.message_from_bytes(mail.as_bytes(), policy=email.policy.SMTP)
    # The standard library may lose a blank where it folds a header that is not ASCII.
    assert "".join(read["Subject"].split()) == "".join(f"Segue: {safe.title}".split())
    assert sorted(read.keys()) == sorted(mail.keys())


def test_the_webhook_is_slacks_and_signed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOOK_KEY_FOR_TESTS", "key")
    with webhook() as hook:
        options = settings(webhook={"url": hook.url, "secret_env": "HOOK_KEY_FOR_TESTS"})
        assert send(options, NASTY) == []
    (said,) = hook.json()
    assert said["text"].startswith("Segue: Done Bcc: all@example.org gnp\n&lt;!channel&gt; &amp;")
    assert said["message"] == "<!channel> & <b>text</b>\nsecond line with [redacted]"
    assert (said["kind"], said["link"]) == ("needs_human", "")
    right = "sha256=" + hmac.new(b"key", hook.bodies[0], hashlib.sha256).hexdigest()
    assert hook.headers[0]["x-segue-signature"] == right
    assert hook.headers[0]["x-segue-delivery"] == said["id"]


def test_the_webhook_is_tried_again_as_the_same_delivery() -> None:
    with webhook() as hook:
        hook.statuses = [503, 429, 204]
        assert send(settings(webhook={"url": hook.url}), Notification("parked", "t", "x")) == []
    assert len({headers["x-segue-delivery"] for headers in hook.headers}) == 1
    assert (len(hook.bodies), len(set(hook.bodies))) == (3, 1)


def test_problems_are_sentences_without_the_address() -> None:
    with webhook() as hook:
        hook.statuses = [404]
        assert send(settings(webhook={"url": hook.url}), Notification("parked", "t", "x")) == [
            "webhook: the server answered 404."
        ]
    gone = send(settings(webhook={"url": hook.url, "timeout": 3}), Notification("parked", "t", "x"))
    assert gone == ["webhook: the server could not be reached (Connection refused)."]
    options = settings(webhook={"url": hook.url, "secret_env": "NO_SUCH_VARIABLE_HERE"})
    (problem,) = send(options, Notification("parked", "t", "x"))
    assert "NO_SUCH_VARIABLE_HERE" in problem
    with pytest.raises(OptionError) as caught:
        settings(webhook={"url": "ftp://host/very-secret"})
    assert "very-secret" not in str(caught.value)


def test_mail_arrives_as_one_mail() -> None:
    with mail_server() as server:
        assert send(settings(email=mail_settings(server.port)), NASTY) == []
    (mail,) = server.mails
    read = email.message_from_bytes(mail, policy=email.policy.default)
    assert read["Subject"] == "Segue: Done Bcc: all@example.org gnp"
    assert read["Bcc"] is None
    assert len(server.recipients) == 2
    assert "hunter2" not in read.get_content()
    assert "second line with [redacted]" in read.get_content()


def test_mail_is_not_sent_without_the_encryption_that_was_asked_for() -> None:
    with mail_server() as server:
        (problem,) = send(
            settings(email=mail_settings(server.port, security="starttls")),
            Notification("reminder", "t", "x"),
        )
    assert "STARTTLS" in problem
    assert server.mails == []


def test_a_silent_server_holds_up_nobody_else() -> None:
    with mail_server(silent=True) as server, webhook() as hook:
        options = settings(email=mail_settings(server.port, timeout=0.5), webhook={"url": hook.url})
        assert send(options, Notification("reminder", "t", "x")) == [
            "email: the server did not answer in time, or closed the connection."
        ]
        assert len(hook.bodies) == 1


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"to": []}, "nobody"),
        ({"sender": "me@example.org\nBcc: x@y"}, "not an address"),
        ({"to": ["a@b, c@d"]}, "not an address"),
        ({"host": "mail.example.org", "user": "me"}, "without encryption"),
    ],
)
def test_unsafe_mail_settings_are_refused(more: dict[str, Any], said: str) -> None:
    with pytest.raises(OptionError, match=said):
        settings(email=mail_settings(25, **more))


FAKE = """{shebang}
import json, pathlib, sys
pathlib.Path({out!r}).write_text(json.dumps(sys.argv[1:]))
sys.exit({code})
"""


@pytest.mark.skipif(sys.platform in ("win32", "darwin"), reason="these have another program")
def test_the_desktop_shows_the_notification(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    options = settings(desktop={"enabled": True})
    (problem,) = send(options, NASTY)
    assert "notify-send cannot be found" in problem
    program = tmp_path / "notify-send"
    program.write_text(FAKE.format(shebang=shebang(), out=str(tmp_path / "said"), code=0))
    program.chmod(0o755)
    assert send(options, NASTY) == []
    *_, dashes, title, body = json.loads((tmp_path / "said").read_text())
    assert (dashes, title) == ("--", "Segue: Done Bcc: all@example.org gnp")
    assert body == "&lt;!channel&gt; &amp; &lt;b&gt;text&lt;/b&gt;\nsecond line with [redacted]"
    program.write_text(FAKE.format(shebang=shebang(), out=str(tmp_path / "said"), code=3))
    assert "exit code 3" in send(options, NASTY)[0]


def test_only_the_wanted_kinds_are_sent() -> None:
    with webhook() as hook:
        options = settings(on=["parked"], webhook={"url": hook.url})
        for kind in KINDS:
            assert send(options, Notification(kind, kind, "")) == []
    assert [said["kind"] for said in hook.json()] == ["parked", "test"]
