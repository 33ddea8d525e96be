"""Notifications: bounded and harmless text, sent by the real Apprise to a real server."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from segue.domain.errors import UsageError
from segue.domain.notification import Notification
from segue.domain.options import read_options
from segue.domain.text import plain, plain_lines
from segue.features.notify.options import NotifySettings
from segue.features.notify.send import Sender
from segue.system.redact import Redactor
from tests.features.notify.servers import webhook


def sender(*urls: str, **more: Any) -> Sender:
    settings = read_options(NotifySettings, {"urls": list(urls), **more})
    return Sender(settings, Redactor(["hunter2hunter2"]))


def send(sender: Sender, notification: Notification) -> list[str]:
    return asyncio.run(sender.send(notification))


@given(st.text(max_size=3000), st.text(max_size=9000))
def test_whatever_an_agent_says_is_bounded_and_harmless(title: str, text: str) -> None:
    safe_title, safe_text = sender().make_harmless(Notification("reminder", title, text))
    assert 0 < len(safe_title) <= 127
    assert safe_title == plain(safe_title, 127)
    assert len(safe_title.splitlines()) == 1
    assert safe_text == plain_lines(safe_text, 2000)
    assert "hunter2hunter2" not in safe_title + safe_text
    safe_title.encode()


def test_a_notification_arrives_without_secrets_and_control_characters() -> None:
    nasty = Notification(
        "needs_human",
        "Done\r\nBcc: all@example.org\n\x1b]0;owned\x07 \u202egnp",
        "second line\x00 with hunter2hunter2",
    )
    with webhook() as hook:
        assert send(sender(hook.url), nasty) == []
    (body,) = hook.json()
    assert body["title"] == "Segue: Done Bcc: all@example.org gnp"
    assert body["message"] == "second line with [redacted]"


def test_a_problem_names_the_address_by_its_place_and_stops_no_other() -> None:
    with webhook() as hook, webhook() as refusing:
        refusing.statuses = [404]
        problems = send(sender(refusing.url, hook.url), Notification("parked", "t", "x"))
        assert problems == ["Address 1 (JSON) did not take the notification."]
        assert hook.titles() == ["Segue: t"]
    with pytest.raises(UsageError, match="address 1") as caught:
        sender("no-such-service://very-secret")
    assert "very-secret" not in str(caught.value)


def test_only_the_wanted_kinds_are_sent() -> None:
    with webhook() as hook:
        only_parked = sender(hook.url, on=["parked"])
        for kind in ("needs_human", "parked", "test"):
            assert send(only_parked, Notification(kind, kind, "")) == []
    assert hook.titles() == ["Segue: parked", "Segue: test"]
