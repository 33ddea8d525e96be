"""The conversation with an agent: turns from events, search, and pages that leave nothing out."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from segue.domain import events as e
from segue.domain.outcome import Failure, FailureKind, Usage
from segue.web.talk import TurnReader, list_edits
from tests.cli.place import Place
from tests.web.place import SPEC, Served, make_run
from tests.web.test_server import HOSTILE

EDIT = {"file_path": "a.py", "old_string": "one\ntwo", "new_string": "one\n2"}
_names = st.sampled_from(["a", "b", ""])
_events = st.one_of(
    st.builds(e.AgentText, st.text(min_size=1).filter(str.strip)),
    st.builds(e.AgentThought, st.text()),
    st.builds(e.AgentUsage, st.integers(0, 9), st.integers(0, 9)),
    st.builds(
        e.AgentTool,
        st.sampled_from(["Bash", "Edit"]),
        st.none() | st.dictionaries(st.sampled_from(["path", "patch", "edits", "content"]), st.text()),
        _names,
        st.sampled_from(["started", "completed", ""]),
        st.sampled_from(["", "success", "failure"]),
        st.none() | st.text() | st.dictionaries(st.just("stdout"), st.text()),
    ),
    st.builds(e.NoticeGiven, st.text(min_size=1)),
    st.just(e.PromptSent("d", 3)),
)


def record(*events: e.Event, step: str = "task/1/execute/1") -> list[e.Recorded]:
    return [e.Recorded("r", seq, 1000 * seq, step, event) for seq, event in enumerate(events, 1)]


@given(st.lists(_events, max_size=30))
def test_no_word_and_no_tool_is_lost(events: list[e.Event]) -> None:
    turns = TurnReader().read(record(*events))
    parts = [part for turn in turns for part in turn.parts]
    assert [part.seq for part in parts] == sorted(part.seq for part in parts)
    thoughts = sum(isinstance(event, e.AgentThought) for event in events)
    assert sum(part.kind == "thought" for part in parts) == thoughts
    ended = [event for event in events if isinstance(event, e.AgentTool) and event.state != "started"]
    assert sum(part.kind == "tool" for part in parts) >= len(ended)
    assert [turn.last for turn in turns] == sorted(turn.last for turn in turns)


def test_a_tool_is_one_part_from_its_start_to_its_end() -> None:
    (turn,) = TurnReader().read(
        record(
            e.AgentTool("Bash", {"command": "make"}, "x", "started"),
            e.AgentTool("Bash", {"command": "make"}, "x", "completed", "failure", {"exit_code": 2}),
        )
    )
    (part,) = turn.parts
    assert part.tool is not None
    assert (part.tool.about, part.tool.exit_code, part.tool.is_bad) == ("make", 2, True)
    assert part.tool.seconds == 1.0
    assert not part.tool.is_open


def test_words_after_work_begin_another_turn() -> None:
    said = [e.AgentText("a"), e.AgentTool("Read", {}), e.AgentUsage(1, 2), e.AgentText("b")]
    ended = e.AgentEnded(False, failure=Failure(FailureKind.CRASH, "it broke"), usage=Usage(5, 6))
    first, second = TurnReader().read(record(*said, ended))
    assert first.usage is not None
    assert (first.usage["input_tokens"], first.usage["output_tokens"]) == (1, 2)
    assert [part.kind for part in second.parts] == ["text", "error"]
    assert second.usage is not None
    assert second.usage["input_tokens"] == 5


def test_edits_are_shown_as_a_diff() -> None:
    (file,) = list_edits(EDIT)
    assert [(line["kind"], line["text"]) for line in file["lines"]] == [
        ("", " one"),
        ("del", "-two"),
        ("add", "+2"),
    ]
    (written,) = list_edits({"path": "b.py", "content": "x\ny"})
    assert [line["text"] for line in written["lines"]] == ["+x", "+y"]
    (patched,) = list_edits({"changes": [{"path": "c.py", "diff": "@@ -1 +1 @@\n-a\n+b"}]})
    assert patched["path"] == "c.py"
    assert list_edits({"command": "ls"}) == []


def test_a_long_conversation_is_paged_and_searched(place: Place, served: Served) -> None:
    spoken: list[e.Event] = [e.PromptSent("d", 5, text="Do it.")]
    for number in range(200):
        spoken += [e.AgentText(f"word{number:03} {HOSTILE}"), e.AgentTool("Bash", {"command": f"c{number}"})]
    made = make_run(place.database, spoken, replace(SPEC, repo=str(place.repo)))
    (seq,) = [step["seq"] for step in served.data(f"/runs/{made.id}/tasks/1")["steps"]]
    for where in (f"/runs/{made.id}/steps/{seq}/conversation", f"/runs/{made.id}/tasks/1/conversation"):
        words = [f"word{number:03}" for number in range(200)]
        assert _read_on(served, where, "later", "after", "") == words
        assert _read_on(served, where, "earlier", "before", "?end=1") == words
        (found,) = served.data(f"{where}?q=WORD042")["turns"]
        assert found["parts"][0]["text"].startswith("word042")
        assert served.data(f"{where}?q=nowhere")["turns"] == []
        assert len(served.data(f"{where}?show=tools&q=c19")["turns"]) == 1
        assert served.data(f"{where}?show=errors")["turns"] == []
        page = served.get(f"{where}?q=word042").text
        assert "<mark>word042</mark>" in page
        assert "<script>alert" not in page


def _read_on(served: Served, where: str, link: str, name: str, start: str) -> list[str]:
    """Follow the links from page to page; return the first words of all turns, in order."""
    pages: list[list[str]] = []
    address = where + start
    while address:
        data: Any = served.data(address)
        texts = [part["text"] for turn in data["turns"] for part in turn["parts"] if part["kind"] == "text"]
        pages.append([text.split()[0] for text in texts])
        address = f"{where}?{name}={data[link]}" if data[link] else ""
    return [word for page in (pages if name == "after" else pages[::-1]) for word in page]
