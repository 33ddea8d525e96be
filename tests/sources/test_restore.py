"""Whatever became of the state file and whatever the journal knows: which tasks are pending then."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from segue.domain.source import SourceHistory
from segue.domain.task import Completion, Task, TaskStatus
from segue.ports import Source
from segue.sources.plan.source import PlanFile
from segue.sources.prompt import PromptSource
from segue.sources.speckit.source import SpecKit
from segue.sources.state_file import CorruptState

KEYS = ("1", "2", "3", "4")


@dataclass
class Stage:
    """A source with four tasks, its state file, and the journal of its runs."""

    make: Callable[[], Source]
    file: Path
    names: Sequence[str]
    plans: tuple[tuple[Task, ...], ...] = ()
    marks: dict[str, Completion] = field(default_factory=dict)
    runs: list[str] = field(default_factory=lambda: ["run-1"])
    seq: int = 0

    def mark(self, place: int, status: TaskStatus) -> None:
        """End a task: in the source, and then in the journal."""
        source, key = self.make(), self.names[place]
        task = next(task for task in source.tasks().tasks if task.key == key)
        if task.status is not TaskStatus.PENDING:
            return
        self.seq += 1
        completion = Completion(status, self.runs[-1], self.seq, digest=source.fingerprint(task))
        source.mark(task, completion)
        self.marks[key] = completion

    def new_run(self) -> None:
        self.runs.append(f"run-{len(self.runs) + 1}")
        self.seq = 0

    def history(self) -> SourceHistory:
        return SourceHistory(tuple(self.runs), dict(self.marks), self.plans)

    def pending(self) -> set[str]:
        return {task.key for task in self.make().tasks().tasks if task.status is TaskStatus.PENDING}


def plan_stage(root: Path) -> Stage:
    (root / "plan.md").write_text("".join(f"## Task {key}\nDo {key}.\n\n" for key in KEYS))
    return Stage(lambda: PlanFile(root / "plan.md", root, root / "s.json"), root / "s.json", KEYS)


def feature_stage(root: Path) -> Stage:
    folder = root / "specs" / "001-x"
    folder.mkdir(parents=True)
    (folder / "tasks.md").write_text("".join(f"- [ ] T00{key} Do {key}\n" for key in KEYS))
    return Stage(lambda: SpecKit(folder, root), folder / "state.json", [f"T00{key}" for key in KEYS])


def prompt_stage(root: Path) -> Stage:
    steps = tuple(Task(key, f"Do {key}", f"Do {key}.", build_phase="setup") for key in KEYS)
    PromptSource("Build it all", root, root / "p.json").revise(steps, "run-1")
    return Stage(lambda: PromptSource("Build it all", root, root / "p.json"), root / "p.json", KEYS, (steps,))


STAGES = {"plan": plan_stage, "feature": feature_stage, "prompt": prompt_stage}
ENDS = st.lists(
    st.one_of(
        st.tuples(st.integers(0, 3), st.sampled_from([TaskStatus.DONE, TaskStatus.SKIPPED])), st.none()
    ),
    max_size=6,
)


@pytest.mark.parametrize("stage", STAGES.values(), ids=STAGES)
@given(ends=ENDS, fate=st.sampled_from(["kept", "missing", "truncated", "older"]), data=st.data())
def test_the_journal_decides(
    stage: Callable[[Path], Stage], ends: list[tuple[int, TaskStatus] | None], fate: str, data: st.DataObject
) -> None:
    with tempfile.TemporaryDirectory() as root:
        here = stage(Path(root))
        files = [here.file.read_bytes()] if here.file.exists() else []
        for end in ends:
            if end is None:
                here.new_run()
            else:
                here.mark(*end)
                files.append(here.file.read_bytes())
        wanted = set(here.names) - here.marks.keys()
        if fate == "missing":
            here.file.unlink(missing_ok=True)
        elif files and fate == "truncated":
            here.file.write_bytes(files[-1][: data.draw(st.integers(0, len(files[-1])))])
        elif files and fate == "older":
            here.file.write_bytes(data.draw(st.sampled_from(files)))
        said = here.make().restore(here.history())
        assert here.pending() == wanted
        assert not said or "from the journal" in said
        assert here.make().restore(here.history()) == "", "rebuilt once is enough"
        assert here.pending() == wanted


@pytest.mark.parametrize("stage", [plan_stage, feature_stage], ids=["plan", "feature"])
@given(ends=ENDS, added=st.integers(0, 3), how=st.sampled_from(["edited", "elsewhere"]))
def test_a_file_of_somebody_else_is_believed(
    stage: Callable[[Path], Stage], ends: list[tuple[int, TaskStatus] | None], added: int, how: str
) -> None:
    with tempfile.TemporaryDirectory() as root:
        here = stage(Path(root))
        for end in ends:
            if end is not None:
                here.mark(*end)
        here.mark(added, TaskStatus.DONE)
        done = set(here.names) - here.pending()
        if how == "edited":
            document = json.loads(here.file.read_bytes())
            here.file.write_text(json.dumps({**document, "note": "by hand"}))
            history = here.history()
        else:
            history = SourceHistory(("another run",), {})
        assert "edited or comes from elsewhere" in here.make().restore(history)
        assert set(here.names) - here.pending() == done


@pytest.mark.parametrize("stage", STAGES.values(), ids=STAGES)
def test_nothing_is_rebuilt_where_the_journal_knows_no_run(
    tmp_path: Path, stage: Callable[[Path], Stage]
) -> None:
    here = stage(tmp_path)
    here.mark(0, TaskStatus.DONE)
    here.file.write_bytes(b"{")
    if stage is plan_stage:  # a plan starts over then, and says so
        assert "The run starts with the first task." in here.make().restore(SourceHistory())
        return
    with pytest.raises(Exception, match="corrupted"):
        here.make().restore(SourceHistory())
    assert here.file.read_bytes() == b"{"


def test_a_file_of_a_newer_version_is_left_alone(tmp_path: Path) -> None:
    here = plan_stage(tmp_path)
    here.mark(0, TaskStatus.DONE)
    newer = json.dumps({**json.loads(here.file.read_bytes()), "schema": 99})
    here.file.write_text(newer)
    with pytest.raises(CorruptState, match="schema 99"):
        here.make().restore(here.history())
    assert here.file.read_text() == newer
