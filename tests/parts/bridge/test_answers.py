"""A person presses a button in a notification; the bridge decides about the task, and the run continues."""

from __future__ import annotations

import asyncio
import json
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
from starlette.applications import Starlette

from segue.domain.run import Run
from segue.parts.bridge.answers import AnswerDesk
from segue.parts.notify.answers import AnswerSigner, TaskAnswer
from segue.parts.notify.sim.chats import NtfyScript, SlackScript, ntfy_app, slack_app
from segue.runtime.app import App
from segue.system.http.server import start_server
from tests import loopback
from tests.cli.place import DEADLINE, Place, until
from tests.parts.notify.servers import webhook
from tests.warm import start_segue

KEY = "answer-key-of-the-test"
SIGNING = "slack-signing-secret-of-the-test"
CLAIMS = '[[on]]\nsay = "I claim to be done."\n'
WORKS = '[[on]]\nwrite = { "f{task}" = "x" }\n'


class Answered:
    """A place with a bridge for answers, and the simulators that show notifications."""

    def __init__(self, place: Place) -> None:
        self.place = place
        place.env |= {"SEGUE_ANSWER_KEY": KEY, "SLACK_SIGNING_SECRET": SIGNING}
        place.env |= {"SEGUE_NOTIFY__ANSWERS__URL": "http://127.0.0.1"}
        self.process: subprocess.Popen[str] | None = None
        self.url = ""
        self._stops: list[Any] = []

    def simulate(self, app: Starlette) -> str:
        url, stop = start_server(app)
        self._stops.append(stop)
        return url

    def serve(self) -> None:
        """Start the bridge; notifications of later runs lead to it."""
        out = self.place.root / "serve.out"
        with out.open("w") as file, (self.place.root / "serve.err").open("w") as errors:
            words = ("bridge", "serve", "--port", "0", "--json")
            self.process = start_segue(words, self.place.repo, self.place.env, file, errors)
        until(lambda: "\n" in out.read_text(), "the bridge listens")
        self.url = json.loads(out.read_text())["url"]
        self.place.env["SEGUE_NOTIFY__ANSWERS__URL"] = self.url

    def stop(self) -> None:
        if self.process is not None:
            self.process.terminate()
            self.process.wait(DEADLINE)
        for stop in self._stops:
            stop()

    def post(self, token: str, **kwargs: Any) -> httpx2.Response:
        return loopback.post(f"{self.url}/answers", content=token, timeout=120, **kwargs)

    def state(self, run: str) -> str:
        return str(self.place.json("status", run)["state"])

    def decisions(self) -> list[dict[str, Any]]:
        return [one for one in self.place.events("task.marked") if one["by"]]

    def token(self, run: str, action: str, **more: Any) -> str:
        """Make a token as a notification about task 1 of the run has it."""
        seq = self.place.rows("select seq from orchestrator_events where type = 'task.ended'")[0][0]
        given = {"run": run, "task": "1", "seq": seq, "action": action, "expires": int(time.time()) + 600}
        return AnswerSigner(KEY, "", 600).sign(TaskAnswer(**{**given, **more}))

    def needs_person(self, *words: str) -> str:
        """Let a run end that needs a person for its first task; return its id."""
        self.place.script(CLAIMS)
        stops = () if "SEGUE_CONTINUE_WITH_REMAINING_TASKS" in self.place.env else ("--fail-fast",)
        self.place.segue("run", "plan.md", *stops, *words, code=3)
        self.place.script(WORKS)
        return self.place.last_run()


@pytest.fixture
def answered(tmp_path: Path) -> Iterator[Answered]:
    found = Answered(Place.make(tmp_path))
    found.place.script(CLAIMS)
    yield found
    found.stop()


def post(url: str, **body: Any) -> Any:
    return loopback.post(url, json=body, timeout=120).json()


@pytest.mark.thorough
def test_a_button_in_slack_decides_and_the_run_continues(answered: Answered) -> None:
    slack = answered.simulate(slack_app())
    answered.place.env["SEGUE_NOTIFY__SLACK__URL"] = f"{slack}/services/T0/B0/secret-part"
    answered.serve()
    post(f"{slack}/_sim/script", request_url=f"{answered.url}/answers/slack", signing_secret=SIGNING)
    run = answered.needs_person()

    def message() -> Any:
        return loopback.get(f"{slack}/_sim/messages").json()["messages"][0]

    def press(**more: Any) -> list[int]:
        found = post(f"{slack}/_sim/press", button="Accept", message=0, **more)
        return [answer["status"] for answer in found["answers"]]

    assert "Task 1" in message()["text"]
    assert press(secret="wrong") == [401]
    assert press(age=600) == [401]
    assert answered.decisions() == []
    tokens = [one["value"] for block in message()["blocks"] for one in block.get("elements", [])]
    assert press(times=2) == [200, 401], "the same request counts once"
    until(lambda: "accepted" in message()["text"], "Slack shows what happened")
    assert message()["text"] == f"Segue: Task 1 is accepted. Run {run} continues."
    assert message()["blocks"] == []
    until(lambda: answered.state(run) == "done", "the run continues to its end")
    [marked] = answered.decisions()
    assert "by notification (Slack, u0ada U0ADA)" in marked["by"]
    assert (answered.place.repo / "f3").exists()
    for token in tokens:
        again = answered.post(token)
        assert (again.status_code, "already" in again.text) == (409, True)
    stored = answered.place.database.read_bytes() + (answered.place.root / "serve.err").read_bytes()
    for secret in (KEY, SIGNING, "secret-part", *(token.partition(".")[2] for token in tokens)):
        assert secret.encode() not in stored


@pytest.mark.thorough
def test_who_may_not_answer_in_slack_changes_nothing(answered: Answered) -> None:
    slack = answered.simulate(slack_app())
    answered.place.env["SEGUE_NOTIFY__SLACK__URL"] = f"{slack}/services/T0/B0/x"
    answered.place.env["SEGUE_NOTIFY__SLACK__USERS"] = '["U0BOSS"]'
    answered.serve()
    post(f"{slack}/_sim/script", request_url=f"{answered.url}/answers/slack", signing_secret=SIGNING)
    run = answered.needs_person()
    post(f"{slack}/_sim/press", button="Skip")
    shown: list[str] = []

    def told() -> list[str]:
        shown[:] = loopback.get(f"{slack}/_sim/messages").json()["messages"][0]["privately"]
        return shown

    until(told, "the person is told")
    assert "You may not answer here" in shown[0]
    assert answered.state(run) == "needs_human"
    wrong = loopback.post(f"{answered.url}/answers/slack", content=b"payload=x")
    assert wrong.status_code == 401


@pytest.mark.thorough
def test_a_button_of_ntfy_tries_again_and_the_next_press_changes_nothing(answered: Answered) -> None:
    ntfy = answered.simulate(ntfy_app(NtfyScript(token="tk_test")))
    answered.place.env |= {"SEGUE_NOTIFY__NTFY__URL": ntfy, "SEGUE_NOTIFY__NTFY__TOPIC": "secret-topic"}
    answered.place.env |= {"SEGUE_NOTIFY__NTFY__TOKEN_ENV": "NTFY_TOKEN", "NTFY_TOKEN": "tk_test"}
    answered.serve()
    run = answered.needs_person()
    [answer] = post(f"{ntfy}/_sim/press", button="Retry")["answers"]
    assert answer == {"status": 200, "text": f"Task 1 is tried again. Run {run} continues.\n"}
    until(lambda: answered.state(run) == "done", "the run continues to its end")
    [answer] = post(f"{ntfy}/_sim/press", button="Skip", message=0)["answers"]
    assert answer["status"] == 409
    assert "already decided" in answer["text"]
    assert (answered.place.repo / "f1").exists()
    assert b"secret-topic" not in answered.place.database.read_bytes()


@pytest.mark.thorough
def test_a_link_asks_before_it_decides(answered: Answered) -> None:
    with webhook() as hook:
        answered.place.env["SEGUE_NOTIFY__WEBHOOK__URL"] = hook.url
        answered.serve()
        run = answered.needs_person()
        skip = next(one for one in hook.json()[0]["answers"] if one["action"] == "skip")
    page = loopback.get(skip["link"])
    assert page.status_code == 200
    assert "<button>Skip</button>" in page.text
    assert "frame-ancestors 'none'" in page.headers["content-security-policy"]
    assert answered.decisions() == [], "who looks where a link leads decides nothing"
    headers = {"Origin": answered.url, "Accept": "text/html"}
    assert loopback.post(skip["link"], headers={"Origin": "http://evil.example"}).status_code == 403
    done = loopback.post(skip["link"], headers=headers, timeout=120)
    assert done.status_code == 200
    assert f"Task 1 is skipped. Run {run} continues." in done.text
    assert loopback.post(skip["link"], headers=headers, timeout=120).status_code == 409
    until(lambda: answered.state(run) == "done", "the run continues to its end")
    assert not (answered.place.repo / "f1").exists()


def test_a_question_is_answered_from_a_phone(answered: Answered) -> None:
    ntfy = answered.simulate(ntfy_app())
    answered.place.env |= {"SEGUE_NOTIFY__NTFY__URL": ntfy, "SEGUE_NOTIFY__NTFY__TOPIC": "topic"}
    answered.serve()
    answered.place.script('[[on]]\ntask = "1"\nsay = "Shall I take Postgres or <SQLite>?"\n' + WORKS)
    answered.place.segue("run", "plan.md", "--fail-fast", code=3)
    run = answered.place.last_run()
    [line] = loopback.get(f"{ntfy}/topic/json?poll=1").text.splitlines()
    message = json.loads(line)
    assert f'segue task answer 1 "…" --run {run}' in message["message"]
    assert [one["label"] for one in message["actions"]] == ["Answer", "Accept", "Skip"]
    link = message["actions"][0]["url"]
    page = loopback.get(link).text
    assert "Postgres or &lt;SQLite&gt;?" in page
    assert "<textarea" in page
    assert loopback.post(link).status_code == 400, "a press alone is no answer"
    answered.place.script(WORKS)
    headers = {"Origin": answered.url, "Accept": "text/html"}
    done = loopback.post(link, data={"text": "Take Postgres."}, headers=headers, timeout=120)
    assert f"Task 1 is answered. Run {run} continues." in done.text
    assert loopback.post(link, data={"text": "SQLite"}, headers=headers, timeout=120).status_code == 409
    until(lambda: answered.state(run) == "done", "the run continues to its end")
    prompts = [text for (text,) in answered.place.rows("select text from orchestrator_prompts")]
    assert sum("Take Postgres." in text for text in prompts) == 1
    assert not any("SQLite" in text and "The answer" not in text for text in prompts)


def test_what_is_not_signed_too_old_or_unknown_is_refused(answered: Answered) -> None:
    answered.serve()
    run = answered.needs_person()
    good = answered.token(run, "accept")
    for wrong in ("", "x", good[:-1], good.replace(".", ""), good[1:], f"{good}0"):
        assert answered.post(wrong).status_code == 401
        assert loopback.get(f"{answered.url}/answers", params={"token": wrong}).status_code == 401
    old = answered.post(answered.token(run, "accept", expires=1))
    assert old.status_code == 410
    assert f"segue task accept 1 --run {run}" in old.text
    assert answered.post(answered.token("20200101-0000", "accept")).status_code == 404
    assert answered.post(answered.token(run, "accept", task="2")).status_code == 409
    assert answered.post(good, headers={"Host": "evil.example"}).status_code == 403
    assert answered.decisions() == []
    assert answered.state(run) == "needs_human"


@pytest.mark.thorough
def test_a_decision_made_elsewhere_counts(answered: Answered) -> None:
    answered.serve()
    run = answered.needs_person()
    answered.place.segue("task", "skip", "1", "--reason", "not needed")
    late = answered.post(answered.token(run, "accept"))
    assert late.status_code == 409
    assert "already skipped" in late.text
    assert answered.state(run) == "needs_human", "the press does not continue the run either"


def test_without_a_setting_there_are_no_answers(answered: Answered) -> None:
    answered.place.env["SEGUE_NOTIFY__ANSWERS__URL"] = ""
    answered.serve()
    answered.place.env["SEGUE_NOTIFY__ANSWERS__URL"] = ""
    with webhook() as hook:
        answered.place.env["SEGUE_NOTIFY__WEBHOOK__URL"] = hook.url
        run = answered.needs_person()
        assert "answers" not in hook.json()[0]
    assert answered.post(answered.token(run, "accept")).status_code == 503


class Killed(BaseException):
    """Ends the bridge in the middle."""


def test_a_press_that_a_kill_interrupted_is_finished_by_the_next(
    answered: Answered, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = answered.needs_person()
    for name, value in answered.place.env.items():
        monkeypatch.setenv(name, value)
    signer = AnswerSigner(KEY, "", 600)
    resumed: list[str] = []

    async def die(_app: App, _run: Run) -> None:
        raise Killed

    async def resume(_app: App, found: Run) -> None:
        resumed.append(found.id)

    def press(action: str, then: Any) -> tuple[int, str]:
        app = App.load(answered.place.repo)
        with app.store() as store:
            desk = AnswerDesk(app, store, signer, then)
            answer = desk.read(answered.token(run, action))
            assert isinstance(answer, TaskAnswer)
            reply = asyncio.run(desk.answer(answer, "test"))
            return reply.status, reply.text

    with pytest.raises(Killed):
        press("accept", die)
    assert press("skip", resume)[0] == 409, "another answer does not change what was decided"
    assert press("accept", resume) == (200, f"Task 1 is accepted. Run {run} continues.")
    assert press("accept", resume)[0] == 409
    assert resumed == [run]
    assert len(answered.decisions()) == 1


@pytest.mark.thorough
def test_a_run_in_which_another_task_waits_does_not_continue_yet(answered: Answered) -> None:
    answered.place.env["SEGUE_CONTINUE_WITH_REMAINING_TASKS"] = "true"
    answered.serve()
    run = answered.needs_person()
    rows = answered.place.rows("select seq, data from orchestrator_events where type = 'task.ended'")
    asked = [(seq, json.loads(data)["task"]) for seq, data in rows]
    assert len(asked) > 1
    for seq, task in asked[:-1]:
        reply = answered.post(answered.token(run, "accept", task=task, seq=seq))
        assert reply.status_code == 200
        assert "continues when task" in reply.text
        assert answered.state(run) == "needs_human"
    seq, task = asked[-1]
    assert "continues." in answered.post(answered.token(run, "accept", task=task, seq=seq)).text
    until(lambda: answered.state(run) == "done", "the run continues to its end")


def test_simulators_refuse_what_the_services_refuse() -> None:
    url, stop = start_server(slack_app(SlackScript()))
    try:
        hook = f"{url}/services/T/B/x"
        assert loopback.post(hook, json={"text": "x"}).text == "ok"
        assert loopback.post(hook, json={}).status_code == 400
        long = {"type": "section", "text": {"type": "plain_text", "text": "x" * 3001}}
        assert loopback.post(hook, json={"text": "x", "blocks": [long]}).text == "invalid_blocks"
        post(f"{url}/_sim/on", on=[{"fault": "rate_limited", "times": 1, "retry_after": "1"}])
        assert loopback.post(hook, json={"text": "x"}).headers["retry-after"] == "1"
    finally:
        stop()
    url, stop = start_server(ntfy_app())
    try:
        action = {"action": "http", "label": "a", "url": "http://127.0.0.1:9/"}
        good = {"topic": "t", "message": "m", "actions": [action]}
        assert loopback.post(url, json=good).json()["event"] == "message"
        assert loopback.post(url, json={**good, "actions": [action] * 4}).json()["code"] == 40018
        assert json.loads(loopback.get(f"{url}/t/json?poll=1").text)["message"] == "m"
        assert post(f"{url}/_sim/press", button="a")["answers"][0]["status"] == 0
    finally:
        stop()
