"""Buttons of notifications: tokens that stand for exactly one answer, and Slack's signatures."""

from __future__ import annotations

from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from segue.domain.notification import ANSWERS, AnswerAction, Notification
from segue.domain.options import OptionError, read_options
from segue.parts.notify.answers import AnswerSigner, ExpiredToken, TaskAnswer, WrongToken
from segue.parts.notify.mail import compose
from segue.parts.notify.ntfy import build_message as build_ntfy
from segue.parts.notify.options import AnswerSettings, EmailSettings, NtfySettings, SlackSettings
from segue.parts.notify.slack import build_message as build_slack
from segue.parts.notify.slack import sign_request
from segue.parts.notify.webhook import build_payload

SIGNER = AnswerSigner("a key of the test", "https://segue.example.org/hooks/", 60)
names = st.text(min_size=1, max_size=40)
answers = st.builds(
    TaskAnswer, names, names, st.integers(0, 2**40), st.sampled_from(ANSWERS), st.integers(100, 2**33)
)


@given(answers)
def test_a_token_is_read_as_what_was_signed(answer: TaskAnswer) -> None:
    token = SIGNER.sign(answer)
    assert SIGNER.read(token, answer.expires - 1) == answer
    with pytest.raises(ExpiredToken):
        SIGNER.read(token, answer.expires)
    with pytest.raises(WrongToken):
        AnswerSigner("another key", SIGNER.url, 60).read(token, 0)


@given(answers, st.data())
def test_a_token_of_which_anything_was_changed_is_refused(answer: TaskAnswer, data: st.DataObject) -> None:
    token = SIGNER.sign(answer)
    place = data.draw(st.integers(0, len(token)))
    put = data.draw(st.sampled_from([*"Aa0._-=+/ \n\0é", ""]) | st.characters())
    cut = data.draw(st.integers(0, 1))
    changed = token[:place] + put + token[place + cut :]
    if changed != token:
        with pytest.raises(WrongToken):
            SIGNER.read(changed, 0)


@given(st.text(max_size=3000))
def test_no_text_is_taken_for_a_token(text: str) -> None:
    with pytest.raises(WrongToken):
        SIGNER.read(text, 0)


def test_each_button_stands_for_one_answer() -> None:
    buttons = SIGNER.buttons("run-1", "T012", 7, 1000.5)
    asked = SIGNER.buttons("run-1", "T012", 7, 1000.5, asks=True)
    assert {button.action for button in (*buttons, *asked)} == set(get_args(AnswerAction))
    assert [button.needs_words for button in asked] == [True, False, False]
    for button in buttons:
        assert SIGNER.read(button.token, 1059) == TaskAnswer("run-1", "T012", 7, button.action, 1060)
        assert button.url == "https://segue.example.org/hooks/answers"
        assert button.link == f"{button.url}?token={button.token}"
    assert SIGNER.buttons("run-1", "x" * 2000, 7, 1000.5) == (), "Slack would refuse the message"


def test_a_signature_is_the_one_of_slacks_documentation() -> None:
    body = (
        "token=xyzz0WbapA4vBCDEFasx0q6G&team_id=T1DC2JH3J&team_domain=testteamnow&channel_id=G8PSS9T3V"
        "&channel_name=foobar&user_id=U2CERLKJA&user_name=roadrunner&command=%2Fwebhook-collect&text="
        "&response_url=https%3A%2F%2Fhooks.slack.com%2Fcommands%2FT1DC2JH3J%2F397700885554"
        "%2F96rGlfmibIGlgcZRskXaIFfN&trigger_id=398738663015.47445629121.803a0bc887a14d10d2c447fce8b6703c"
    )
    known = "v0=a2114d57b48eac39b9ad189dd8316235a7b4a8d21a10bd27519666489c69b503"
    assert sign_request("8f742231b10e8888abcd99yyyzzz85a5", "1531420618", body.encode()) == known


@given(st.text(max_size=120), st.text(max_size=2000))
def test_what_is_sent_fits_the_limits_of_each_service(title: str, text: str) -> None:
    shown = Notification(
        "needs_human", title, text, "https://example.org/", answers=SIGNER.buttons("r", "1", 1, 1)
    )
    slack = build_slack(shown)
    assert len(slack["blocks"][0]["text"]["text"]) <= 3000
    assert [block["type"] for block in slack["blocks"]] == ["section", "context", "actions"]
    assert slack["blocks"][0]["text"]["type"] == "plain_text", "an agent's words are no markup"
    assert not any(mark in slack["text"] for mark in "<>")
    ntfy = build_ntfy("topic", shown)
    assert len(ntfy["message"].encode()) <= 4096
    assert len(ntfy["actions"]) == 3
    assert all(shown.answers[n].token not in ntfy["actions"][n]["url"] for n in range(3))
    assert [one["action"] for one in build_payload(shown, "id", 1.0)["answers"]] == list(ANSWERS)


def test_a_mail_has_links_that_ask_before_they_decide() -> None:
    options = read_options(
        EmailSettings, {"host": "h", "sender": "me@example.org", "to": ["you@example.org"]}
    )
    buttons = SIGNER.buttons("r", "1", 1, 1)
    mail = compose(options, Notification("needs_human", "Task 1", "x", answers=buttons)).get_content()
    assert all(f"{button.label}: {button.link}" in mail for button in buttons)


@pytest.mark.parametrize(
    ("kind", "table"),
    [
        (SlackSettings, {"url": "hooks.slack.com/secret-part"}),
        (NtfySettings, {"topic": "a secret-part"}),
        (NtfySettings, {"url": "ntfy.sh"}),
        (AnswerSettings, {"url": "segue.example.org"}),
    ],
)
def test_wrong_settings_are_refused_without_quoting_secrets(kind: type, table: dict[str, Any]) -> None:
    with pytest.raises(OptionError) as refused:
        read_options(kind, table)
    assert "secret-part" not in str(refused.value)
