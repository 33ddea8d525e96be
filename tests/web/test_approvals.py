"""The relay asks, the page answers: two processes that share a state folder."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from segue.domain.errors import UsageError
from segue.relay.questions import Questions
from tests.cli.place import Place, until
from tests.relay.place import RelayPlace
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
def relay_place(place: Place) -> RelayPlace:
    """A relay whose state folder is the page's."""
    found = RelayPlace.make(place.root / "relay", CONFIG.format(folder=place.root, timeout=60))
    place.env |= {name: found.env[name] for name in ("SEGUE_STATE_DIR", "XDG_STATE_HOME")}
    return found


def test_an_action_is_allowed_or_refused_on_the_page(place: Place, relay_place: RelayPlace) -> None:
    with relay_place.serving() as relay, serving(place) as served, ThreadPoolExecutor() as pool:

        def asked() -> dict[str, Any]:
            until(lambda: served.data("/bridge.json")["questions"], "the question")
            question: dict[str, Any] = served.data("/bridge.json")["questions"][0]
            return question

        first = pool.submit(relay.run, "touch", name="good")
        question = asked()
        assert "touch" in question["text"]
        assert "Approval needed" in served.get("/bridge").text
        told = served.post(f"/bridge/questions/{question['id']}/allow")
        assert told.status_code == 200, told.text
        assert first.result().status_code == 200
        assert (place.root / "good").exists()

        second = pool.submit(relay.run, "touch", name="<b>")
        question = asked()
        assert "<b>" not in served.get("/bridge").text, "escaped"
        assert served.post(f"/bridge/questions/{question['id']}/refuse").status_code == 200
        assert second.result().status_code == 403
        assert not (place.root / "<b>").exists()
        assert served.data("/bridge.json")["questions"] == []
        late = served.post(f"/bridge/questions/{question['id']}/allow")
        assert late.status_code == 400
        assert "no longer open" in late.json()["error"]["message"]


def test_silence_means_no(place: Place) -> None:
    found = RelayPlace.make(place.root / "relay", CONFIG.format(folder=place.root, timeout=0.3))
    with found.serving() as relay:
        assert relay.run("touch", name="x").status_code == 403
    assert list((found.folder / "questions").iterdir()) == [], "nothing is left"


def test_only_open_questions_are_answered(tmp_path: Path) -> None:
    questions = Questions(tmp_path)
    over = questions.ask("Too late?", timeout=-1)
    waiting = questions.ask("In time?", timeout=60)
    (tmp_path / "questions" / "junk.json").write_text("{")
    assert questions.open() == [waiting]
    for name in (over.id, "../../etc/passwd", ""):
        with pytest.raises(UsageError):
            questions.answer(name, yes=True)
    questions.answer(waiting.id, yes=True)
    assert questions.read_answer(waiting) is True
    with pytest.raises(UsageError):
        questions.answer(waiting.id, yes=False)
