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

from segue import check_notifier
from segue.config.load import load
from segue.domain.errors import UsageError
from segue.domain.notification import KINDS, Notification
from segue.domain.options import OptionError, read_options
from segue.domain.text import plain, plain_lines
from segue.parts.notify.desktop import build_command
from segue.parts.notify.mail import compose
from segue.parts.notify.options import EmailSettings, NotifySettings
from segue.parts.notify.send import notify, sanitize
from segue.parts.notify.sim.chats import ntfy_app, slack_app
from segue.ports import Notifier
from segue.runtime import registry
from segue.system.http.server import start_server
from segue.system.process.processes import Processes
from segue.system.redact import Redactor
from segue.system.services import Services
from tests import loopback
from tests.parts.notify.servers import certificate, mail_server, webhook
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


def test_the_built_in_notifiers_keep_the_promises_of_their_socket(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    lines: list[str] = []

    def read_terminal() -> str:
        lines.append(capsys.readouterr().err)
        return "".join(lines)

    check_notifier(lambda: make(settings(terminal={"enabled": True}))["terminal"], read_terminal)
    with webhook() as hook, mail_server() as server:
        check_notifier(
            lambda: make(settings(webhook={"url": hook.url}))["webhook"],
            lambda: b"".join(hook.bodies).decode(),
            lambda: make(settings(webhook={"url": "http://127.0.0.1:9/", "timeout": 0.5}))["webhook"],
        )
        check_notifier(
            lambda: make(settings(email=mail_settings(server.port)))["email"],
            lambda: b"".join(server.mails).decode(),
            lambda: make(settings(email=mail_settings(9, timeout=3)))["email"],
        )
    slack, stop_slack = start_server(slack_app())
    ntfy, stop_ntfy = start_server(ntfy_app())
    nowhere = "http://127.0.0.1:9/"
    check_notifier(
        lambda: make(settings(slack={"url": f"{slack}/services/T0/B0/x"}))["slack"],
        lambda: loopback.get(f"{slack}/_sim/messages").text,
        lambda: make(settings(slack={"url": nowhere, "timeout": 0.5}))["slack"],
    )
    check_notifier(
        lambda: make(settings(ntfy={"url": ntfy, "topic": "t"}))["ntfy"],
        lambda: loopback.get(f"{ntfy}/t/json?poll=1").text,
        lambda: make(settings(ntfy={"url": nowhere, "topic": "t", "timeout": 0.5}))["ntfy"],
    )
    stop_slack()
    stop_ntfy()
    monkeypatch.setenv("PATH", str(tmp_path))
    desktop = make(settings(desktop={"enabled": True}))["desktop"]
    with pytest.raises(AssertionError, match=r"every kind.*reminder: NotifyError"):
        check_notifier(lambda: desktop, fails=lambda: desktop)


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


@pytest.mark.parametrize("platform", ["linux", "darwin", "win32"])
@hypothesis.settings(deadline=None)
@given(title=st.text(max_size=100), text=st.text(max_size=100))
def test_desktop_commands_pass_text_as_data(platform: str, title: str, text: str) -> None:
    safe = sanitize(Notification("reminder", title, text), Redactor([]))
    argv, variables = build_command(safe, platform)
    fixed, _ = build_command(Notification("reminder", "x", "y"), platform)
    assert len(argv) == len(fixed)
    assert argv[:-2] == fixed[:-2]
    if platform == "win32":
        assert argv == fixed
        assert variables == {"SEGUE_NOTICE_TITLE": f"Segue: {safe.title}", "SEGUE_NOTICE_TEXT": safe.text}
    else:
        assert argv[-2] == f"Segue: {safe.title}"


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


@pytest.mark.parametrize("security", ["starttls", "ssl"])
def test_mail_is_encrypted_and_logged_in(
    security: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cert, tls = certificate(tmp_path)
    monkeypatch.setenv("SMTP_PASSWORD", "right")
    with mail_server(tls=tls, implicit=security == "ssl", password="right") as server:
        options = settings(email=mail_settings(server.port, security=security, user="me"))
        assert send(options, Notification("reminder", "t", "x")) == [
            "email: the encrypted connection failed; check port, security and the server's certificate."
        ]
        monkeypatch.setenv("SSL_CERT_FILE", str(cert))
        assert send(options, Notification("reminder", "t", "x")) == []
        monkeypatch.setenv("SMTP_PASSWORD", "wrong")
        assert send(options, Notification("reminder", "t", "x")) == [
            "email: the server refused the user or the password."
        ]
    assert server.encrypted == [True]


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


def test_the_terminal_gets_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert send(settings(terminal={"enabled": True}), NASTY) == []
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert not any(ord(char) < 32 for char in said.rstrip("\n"))


def test_only_the_wanted_kinds_are_sent() -> None:
    with webhook() as hook:
        options = settings(on=["parked"], webhook={"url": hook.url})
        for kind in KINDS:
            assert send(options, Notification(kind, kind, "")) == []
    assert [said["kind"] for said in hook.json()] == ["parked", "test"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('[notify]\non = ["x"]\n', "notify.on[0]: expected one of"),
        (
            "[notify.webhook]\ntimeout = 0\n",
            "notify.webhook.timeout: expected a number",
        ),
    ],
)
def test_a_mistake_in_the_settings_is_named_with_its_place(tmp_path: Path, text: str, said: str) -> None:
    file = tmp_path / "segue.toml"
    file.write_text(text)
    with pytest.raises(UsageError) as raised:
        load(tmp_path, config=file, environ={"SEGUE_TRUST": "1"})
    assert raised.value.message.startswith(said)
