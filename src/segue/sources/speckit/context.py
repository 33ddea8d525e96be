"""Context for an agent beside its task: the sections of spec, plan and constitution that fit."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct

from segue.domain.criterion import Criterion
from segue.domain.task import Task
from segue.sources.speckit.spec import Plan, Spec, Story

CONTEXT_BYTES = 48 * 1024
_LEFT_OUT_ROOM = 400


class Section(Struct, frozen=True):
    """A titled piece of the context."""

    title: str
    text: str

    @property
    def rendered(self) -> str:
        """Title and text."""
        return f"# {self.title}\n\n{self.text}"


def stories_of(task: Task) -> tuple[str, ...]:
    """The keys in the story field of a task."""
    return tuple(task.story.split("+")) if task.story else ()


def criteria(task: Task, spec: Spec, whole_stories: Iterable[str]) -> tuple[Criterion, ...]:
    """Return the criteria: the task's text, the requirements it quotes, and scenarios of whole stories."""
    found = [Criterion("task", task.text)]
    found += [Criterion(key, text) for key, text in spec.quoted(task.text).items()]
    stories = _stories(spec, whole_stories)
    return (*found, *(scenario for story in stories for scenario in story.scenarios))


def sections(task: Task, spec: Spec, plan: Plan, constitution: str) -> list[Section]:
    """Everything there is to know, the most important first."""
    stories = _stories(spec, stories_of(task))
    quoted = spec.quoted(task.text)
    # A task that points nowhere in the spec gets all requirements, if there is room for them.
    others = {} if stories or quoted else spec.requirements
    every = [
        Section(f"Task {task.key}", task.text),
        *(Section(f"User story {story.key}", story.text) for story in stories),
        Section("Requirements quoted by the task", "\n".join(quoted.values())),
        Section("Plan: summary", plan.summary),
        Section("Plan: technical context", plan.technical),
        Section("Plan: structure", plan.structure),
        Section("Edge cases", spec.edge_cases),
        Section("Constitution", constitution),
        Section("Requirements of the feature", "\n".join(others.values())),
    ]
    return [section for section in every if section.text.strip()]


def fitted(found: Iterable[Section], room: int = CONTEXT_BYTES) -> str:
    """The sections as text; what finds no room is left out whole, and named at the end."""
    kept: list[str] = []
    left_out: list[str] = []
    room -= _LEFT_OUT_ROOM
    for section in found:
        size = len(section.rendered.encode("utf-8", "surrogatepass")) + 2
        if size <= room:
            room -= size
            kept.append(section.rendered)
        else:
            left_out.append(section.title)
    if left_out:
        kept.append(f"# Left out for want of room\n\n{', '.join(left_out)}"[:_LEFT_OUT_ROOM])
    return "\n\n".join(kept)


def _stories(spec: Spec, keys: Iterable[str]) -> list[Story]:
    found = {story.key: story for key in keys if (story := spec.story(key))}
    return list(found.values())
