"""Tasks of a feature with their criteria, and what an agent should know beside its task."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from segue.domain.graph import Dependency, WaitKind
from segue.domain.task import Notice, Task, TaskStatus
from segue.domain.verdict import Criterion
from segue.sources.speckit.spec import Spec, Story
from segue.sources.speckit.tasks import BoxTask, ParsedTasks
from segue.system.reading import leads_out

_DOCUMENTS = ("spec.md", "plan.md", "data-model.md", "research.md", "quickstart.md", "contracts")


def make_tasks(parsed: ParsedTasks, spec: Spec) -> tuple[Task, ...]:
    """Return the tasks with their criteria; the scenarios of a story are those of its last open task.

    With several tasks at once, that one waits for the others of its story.
    """
    open_boxes = [box for box in parsed.tasks if box.status is TaskStatus.PENDING]
    counts = Counter(key for box in open_boxes for key in box.stories)
    last = {key: box.key for box in open_boxes for key in box.stories}
    tasks = []
    for box in parsed.tasks:
        is_open = box.status is TaskStatus.PENDING
        ending = [
            spec.stories[key] for key in box.stories if is_open and counts[key] == 1 and key in spec.stories
        ]
        waits = [
            Dependency(others, WaitKind.ORDER, f"the scenarios of {key} are judged with it")
            for key in box.stories
            if key in spec.stories and last.get(key) == box.key
            if (others := tuple(one.key for one in open_boxes if key in one.stories and one.key != box.key))
        ]
        keys = {story.key for story in ending}
        members = tuple(
            one.key
            for one in parsed.tasks
            if keys.intersection(one.stories) and one.status in (TaskStatus.PENDING, TaskStatus.DONE)
        )
        tests = (parsed.independent_tests.get(story.key) or story.independent_test for story in ending)
        tasks.append(
            Task(
                box.key,
                box.title,
                box.text,
                box.status,
                box.line,
                story="+".join(box.stories) or None,
                criteria=_criteria(box, spec, ending),
                story_tasks=members,
                independent_test="\n\n".join(filter(None, tests)),
                section=box.section,
                depends_on=(*box.waits, *waits),
                parallel="P" in box.labels,
                phase=box.phase,
                checkpoint=box.checkpoint,
            )
        )
    return tuple(tasks)


def write_context(task: Task, place: str, spec: Spec, plan: str, documents: Iterable[str]) -> str:
    """Return what an agent should know: phase, stories, requirements, the plan, and where the rest is.

    `place` is the folder of the feature, as an agent in the repository names it.
    """
    keys = task.story.split("+") if task.story else []
    stories = [spec.stories[key] for key in keys if key in spec.stories]
    quoted = spec.quoted(task.text)
    sections = [
        ("Where the task belongs", f"Feature folder: {place}\n{task.phase}".strip()),
        *((f"{story.key}: {story.title}", story.text) for story in stories),
        ("Requirements quoted by the task", "\n".join(quoted.values())),
        ("Plan", plan),
        ("Read these where the task touches them", "\n".join(f"- {name}" for name in documents)),
    ]
    return "\n\n".join(f"# {title}\n\n{text}" for title, text in sections if text.strip())


def list_documents(folder: Path, place: str, inside: Path) -> Iterator[str]:
    """Yield the documents of a feature, as an agent names them."""
    for name in _DOCUMENTS:
        if (folder / name).exists() and not leads_out(folder / name, inside):
            yield f"{place}/{name}"


def note_stories(boxes: Sequence[BoxTask], spec: Spec) -> Iterator[Notice]:
    """Name stories of tasks that the spec does not have, and stories of the spec without tasks."""
    first: dict[str, BoxTask] = {}
    for box in boxes:
        for key in box.stories:
            first.setdefault(key, box)
    for key, box in first.items():
        if key not in spec.stories:
            text = f"{box.key} belongs to {key}, which spec.md does not have: its own text is judged."
            yield Notice(box.line, text)
    unused = [key for key in spec.stories if key not in first]
    if first and unused:
        yield Notice(1, f"No task belongs to these user stories of spec.md: {', '.join(unused)}.")


def _criteria(box: BoxTask, spec: Spec, ending: Sequence[Story]) -> tuple[Criterion, ...]:
    quoted = (Criterion(key, text) for key, text in spec.quoted(box.text).items())
    scenarios = (scenario for story in ending for scenario in story.scenarios)
    return (Criterion("task", box.text), *quoted, *scenarios)
