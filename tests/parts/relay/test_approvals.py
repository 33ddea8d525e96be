"""The relay asks, the page answers: two processes that share a state folder."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from segue.domain.errors import UsageError
from segue.parts.relay.confirm import Proposal
from segue.parts.relay.questions import Questions
from segue.system.secrets import write_secret
from tests.cli.place import Place, until
from tests.parts.relay.place import RelayPlace
from tests.web.place import serving

CONFIG = """
[relay]
confirm_timeout = {timeout}
[relay.actions.touch]
argv = ["touch", "{folder}/{{name}}"]
parameters = {{ name = "[a-z<>]+" }}
confirm = "page"
concurrency = 4
"""


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place.make(tmp_path)


@pytest.fixture
def relay_place(place: Place) -> RelayPlace:
    """A relay whose state folder is the page's."""
    found = RelayPlace.make(place.root / "relay", CONFIG.format(folder=place.root, timeout=60))
    place.env |= {name: found.env[name] for name in ("SEGUE_STATE_DIR", "XDG_STATE_HOME")}
    return found


@pytest.mark.thorough
def test_an_action_is_allowed_or_refused_on_the_page(place: Place, relay_place: RelayPlace) -> None:
    with relay_place.serving() as relay, serving(place) as served, ThreadPoolExecutor() as pool:

        def asked() -> dict[str, Any]:
            until(lambda: served.data("/inbox.json")["questions"], "the question")
            question: dict[str, Any] = served.data("/inbox.json")["questions"][0]
            return question

        first = pool.submit(relay.run, "touch", name="good")
        question = asked()
        assert "touch" in question["text"]
        assert "Approval request" in served.get("/inbox").text
        assert question["argv"] == ["touch", f"{place.root}/good"]
        assert question["digest"] in served.get("/inbox").text, "the form names what is shown"
        for wrong in ({}, {"digest": ""}, {"digest": "0" * 64}):
            refused = served.post(f"/bridge/questions/{question['id']}/allow", **wrong)
            assert refused.status_code == 400
            assert "not the action that was shown" in refused.json()["error"]["message"]
        told = served.post(f"/bridge/questions/{question['id']}/allow", digest=question["digest"])
        assert told.status_code == 200, told.text
        assert first.result().status_code == 200
        assert (place.root / "good").exists()

        second = pool.submit(relay.run, "touch", name="<b>")
        question = asked()
        assert "<b>" not in served.get("/inbox").text, "escaped"
        said = served.post(f"/bridge/questions/{question['id']}/refuse", digest=question["digest"])
        assert said.status_code == 200
        assert second.result().status_code == 403
        assert not (place.root / "<b>").exists()
        assert served.data("/inbox.json")["questions"] == []
        late = served.post(f"/bridge/questions/{question['id']}/allow", digest=question["digest"])
        assert late.status_code == 400
        assert "no longer open" in late.json()["error"]["message"]


def test_silence_means_no(place: Place) -> None:
    found = RelayPlace.make(place.root / "relay", CONFIG.format(folder=place.root, timeout=0.3))
    with found.serving() as relay:
        assert relay.run("touch", name="x").status_code == 403
    assert list((found.folder / "questions").iterdir()) == [], "nothing is left"


def make_proposal(name: str) -> Proposal:
    return Proposal("touch", ("touch", name), "/tmp")


def test_only_open_questions_are_answered(tmp_path: Path) -> None:
    questions = Questions(tmp_path)
    over = questions.ask(make_proposal("late"), timeout=-1)
    waiting = questions.ask(make_proposal("now"), timeout=60)
    write_secret(tmp_path / "questions" / "junk.json", b"{")
    assert questions.open() == [waiting]
    digest = waiting.proposal.digest
    for name in (over.id, "../../etc/passwd", ""):
        with pytest.raises(UsageError):
            questions.answer(name, digest, yes=True)
    questions.answer(waiting.id, digest, yes=True)
    assert questions.read_answer(waiting) is True
    with pytest.raises(UsageError):
        questions.answer(waiting.id, digest, yes=False)


def test_a_question_that_was_changed_after_it_was_asked_is_not_shown(tmp_path: Path) -> None:
    questions = Questions(tmp_path)
    asked = questions.ask(make_proposal("harmless"), timeout=60)
    path = tmp_path / "questions" / f"{asked.id}.json"
    write_secret(path, path.read_bytes().replace(b"harmless", b"harmful!"))
    assert questions.open() == []


@pytest.mark.parametrize("change", ["yes", "digest", "signature", "junk", "other"])
def test_an_answer_that_nobody_signed_is_a_no(tmp_path: Path, change: str) -> None:
    questions = Questions(tmp_path)
    asked = questions.ask(make_proposal("one"), timeout=60)
    other = questions.ask(make_proposal("two"), timeout=60)
    questions.answer(asked.id, asked.proposal.digest, yes=change != "yes")
    questions.answer(other.id, other.proposal.digest, yes=True)
    path = tmp_path / "questions" / f"{asked.id}.answer"
    answer = json.loads(path.read_bytes())
    changed = {
        "yes": {**answer, "yes": True},
        "digest": {**answer, "digest": other.proposal.digest},
        "signature": {**answer, "signature": "0" * 64},
        "junk": ["yes"],
        "other": json.loads((tmp_path / "questions" / f"{other.id}.answer").read_bytes()),
    }
    write_secret(path, json.dumps(changed[change]).encode())
    assert questions.read_answer(asked) is False
