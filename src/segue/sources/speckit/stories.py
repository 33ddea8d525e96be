"""Which tasks belong to a user story, and the task that a story ends with."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

from msgspec.structs import replace

from segue.domain.graph import Waits
from segue.domain.task import Notice, Task, TaskStatus
from segue.sources.speckit.context import criteria
from segue.sources.speckit.spec import Spec
from segue.sources.speckit.tasks import BoxTask


def story_keys(box: BoxTask, spec: Spec) -> tuple[str, ...]:
    """Return the stories of a task by their keys in the spec; in the old template the spec is one story."""
    named = box.stories or ((spec.primary,) if spec.primary else ())
    return tuple(dict.fromkeys(story.key if (story := spec.story(key)) else key for key in named))


def open_counts(boxes: Iterable[BoxTask], spec: Spec) -> Counter[str]:
    """Return how many tasks of each story are still to be done."""
    return Counter(key for box in boxes if box.status is TaskStatus.PENDING for key in story_keys(box, spec))


def has_last_task(box: BoxTask, boxes: Iterable[BoxTask], spec: Spec) -> bool:
    """Return whether a story of this task has one open task left."""
    counts = open_counts(boxes, spec)
    return any(counts[key] == 1 for key in story_keys(box, spec) if spec.story(key))


def note_stories(boxes: Iterable[BoxTask], spec: Spec) -> Iterator[Notice]:
    """Name stories of tasks that the spec does not have, and stories of the spec without tasks."""
    first: dict[str, BoxTask] = {}
    for box in boxes:
        for key in box.stories:
            first.setdefault(key, box)
    for key, box in first.items():
        if spec.story(key) is None:
            text = f"{box.key} belongs to {key}, which spec.md does not have: its own text is judged."
            yield Notice(box.line, text)
    used = {story.key for key in first if (story := spec.story(key))}
    unused = [key for key in spec.stories if key not in used]
    if first and unused:
        yield Notice(1, f"No task belongs to these user stories of spec.md: {', '.join(unused)}.")


def list_tasks(
    boxes: Sequence[BoxTask], spec: Spec, tests_named: Mapping[str, str], waits: Waits, strict: bool
) -> tuple[Task, ...]:
    """Return the tasks with their criteria; those of a story are at its last open task, or at all if strict.

    `tests_named` are the independent tests of stories in tasks.md; they come before those in spec.md.
    `waits` is what each task waits for.
    """
    counts = open_counts(boxes, spec)
    members: dict[str, list[str]] = {}
    for box in boxes:
        if box.status in (TaskStatus.PENDING, TaskStatus.DONE):
            for key in story_keys(box, spec):
                members.setdefault(key, []).append(box.key)
    order = {box.key: place for place, box in enumerate(boxes)}
    tasks = []
    for box in boxes:
        is_open = box.status is TaskStatus.PENDING
        ending = [key for key in story_keys(box, spec) if strict or (is_open and counts[key] == 1)]
        named = "+".join(box.stories) or spec.primary
        task = Task(box.key, box.title, box.text, box.status, box.line, named, section=box.section)
        whole = [story for key in ending if (story := spec.story(key))]
        keys = {key for story in whole for key in members.get(story.key, ())}
        tests = [tests_named.get(story.key) or story.independent_test for story in whole]
        tasks.append(
            replace(
                task,
                criteria=criteria(task, spec, ending),
                story_tasks=tuple(sorted(keys, key=order.__getitem__)),
                independent_test="\n\n".join(filter(None, tests)),
                depends_on=tuple(waits.get(box.key, ())),
                parallel="P" in box.labels,
                phase=box.phase,
                checkpoint=box.checkpoint,
            )
        )
    return tuple(tasks)
