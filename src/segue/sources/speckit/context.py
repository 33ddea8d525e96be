"""Context for an agent beside its task: what it must know, where to read the rest, and its user stories."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from segue.domain.graph import Waits
from segue.domain.task import Notice, Task, TaskStatus
from segue.domain.verdict import Criterion
from segue.sources.markdown.lines import find_bad_byte, heading, plain, read_lines
from segue.sources.speckit.spec import Plan, Spec, Story
from segue.sources.speckit.tasks import BoxTask
from segue.system.reading import leads_out, read_file

MOST_BYTES = 48 * 1024
"""What a context may have at most; an agent reads the rest in the files themselves."""
_ROOM = 5 * 1024
"""Sections that are good to know are added up to this size."""
_MOST_PRINCIPLE = 280
_MOST_CONSTITUTION = 1500
_MOST_HINT = 100
_MOST_CONTRACTS = 20
_SENTENCE = re.compile(r"(?<=[.!?])\s+")
_GOVERNANCE = re.compile(r"governance", re.IGNORECASE)
"""The section about amendments of a constitution, which is no rule for code."""
_DOCUMENTS = ("spec.md", "plan.md", "data-model.md", "research.md", "quickstart.md")


class Section(Struct, frozen=True):
    """A titled piece of the context."""

    title: str
    text: str
    file: str = ""
    """Where to read it when there is no room for it; empty: it is always part of the context."""

    @property
    def rendered(self) -> str:
        """Title and text."""
        return f"# {self.title}\n\n{self.text}"


def stories_of(task: Task) -> tuple[str, ...]:
    """Return the keys in the story field of a task."""
    return tuple(task.story.split("+")) if task.story else ()


def criteria(task: Task, spec: Spec, whole_stories: Iterable[str]) -> tuple[Criterion, ...]:
    """Return the criteria: the task's text, the requirements it quotes, and scenarios of whole stories."""
    found = [Criterion("task", task.text)]
    found += [Criterion(key, text) for key, text in spec.quoted(task.text).items()]
    stories = _stories(spec, whole_stories)
    return (*found, *(scenario for story in stories for scenario in story.scenarios))


def sections(
    task: Task, place: str, phase: str, spec: Spec, plan: Plan, constitution: str, law: str = ""
) -> list[Section]:
    """Return everything an agent should know, the most important first.

    `place` is the folder of the feature and `law` the file of the constitution, as the agent names them.
    """
    stories = _stories(spec, stories_of(task))
    quoted = spec.quoted(task.text)
    # A task that points nowhere in the spec gets all requirements, if there is room for them.
    others = {} if stories or quoted else spec.requirements
    spec_file, plan_file = f"{place}/spec.md", f"{place}/plan.md"
    title, *said = phase.splitlines() or [""]
    phase = "\n".join([title, *_without_repetition(said, stories)])
    every = [
        Section("Where the task belongs", f"Feature folder: {place}\n{phase}".strip()),
        *(Section(f"{story.key}: {story.title}", _without_heading(story.text)) for story in stories),
        Section("Requirements quoted by the task", "\n".join(quoted.values())),
        Section("Clarifications", _without_heading(spec.clarifications), spec_file),
        Section("Plan: summary", _without_heading(plan.summary), plan_file),
        Section("Plan: technical context", _without_heading(plan.technical), plan_file),
        Section("Constitution", shorten_constitution(constitution), law),
        Section("Requirements of the feature", "\n".join(others.values()), spec_file),
        Section("Assumptions", _without_heading(spec.assumptions), spec_file),
        Section("Edge cases", _without_heading(spec.edge_cases), spec_file),
    ]
    return [section for section in every if section.text.strip()]


def join_sections(found: Iterable[Section], documents: Sequence[str]) -> str:
    """Return the sections as text, and where to read the rest; what finds no room is named with its file."""
    kept: list[str] = []
    left_out: list[str] = []
    used = 0
    for section in found:
        size = len(section.rendered.encode("utf-8", "surrogatepass")) + 2
        if used + size <= (_ROOM if section.file else MOST_BYTES):
            used += size
            kept.append(section.rendered)
        else:
            left_out.append(f"- {section.title}: see {section.file or 'the spec'}")
    rest = [*left_out, *documents]
    if rest:
        kept.append("# Read these where the task touches them\n\n" + "\n".join(rest))
    return "\n\n".join(kept)


def list_documents(folder: Path, place: str, inside: Path) -> Iterator[str]:
    """Yield a line for each document of a feature, with the headings that say what is in it."""
    for name in _DOCUMENTS:
        if (folder / name).is_file():
            yield f"- {place}/{name}{_hint(folder / name, inside)}"
    shared = folder / "contracts"
    found = () if leads_out(shared, inside) else shared.glob("**/*")
    contracts = sorted(path for path in found if path.is_file())
    for path in contracts[:_MOST_CONTRACTS]:
        yield f"- {place}/{path.relative_to(folder).as_posix()}"
    if len(contracts) > _MOST_CONTRACTS:
        yield f"- {place}/contracts: {len(contracts) - _MOST_CONTRACTS} more files"


def _hint(path: Path, inside: Path) -> str:
    """Return the second-level headings of a file, as far as they fit."""
    text = read_file(path, inside).decode("utf-8", "replace")
    heads = [head for line in read_lines(text) if (head := heading(line)) and head.level == 2]
    names, room = [], _MOST_HINT
    for name in (re.sub(r"\W*\(?mandatory\)?\W*$", "", plain(head.text)) for head in heads):
        room -= len(name) + 2
        if room < 0:
            names.append("…")
            break
        names.append(name)
    return f": {', '.join(names)}" if names else ""


def shorten_constitution(text: str) -> str:
    """Return a constitution; of a long one, each principle with the beginning of what it says."""
    if len(text) <= _MOST_CONSTITUTION:
        return _without_heading(text)
    lines = read_lines(text)
    heads = [head for line in lines if (head := heading(line)) and head.level > 1]
    shortened = []
    for head, following in zip(heads, [*heads[1:], None], strict=True):
        body = lines[head.number : following.number - 1 if following else None]
        said = " ".join(line.text.strip() for line in body if line.text.strip())
        if said and not _GOVERNANCE.search(head.text):
            shortened.append(f"- {plain(head.text)}: {_first_sentences(said)}")
    return "\n".join(shortened)


def _first_sentences(text: str) -> str:
    kept = ""
    for sentence in _SENTENCE.split(text.replace("**", "")):
        if kept and len(kept) + len(sentence) > _MOST_PRINCIPLE:
            break
        kept = f"{kept} {sentence}".strip()
    return kept if len(kept) <= _MOST_PRINCIPLE else f"{kept[:_MOST_PRINCIPLE].rpartition(' ')[0]} …"


def _without_heading(text: str) -> str:
    """Return a section without its own heading, which its title repeats."""
    first, _, rest = text.partition("\n")
    return rest.strip("\n") if first.startswith("#") and rest.strip() else text


def _without_repetition(lines: Iterable[str], stories: Iterable[Story]) -> Iterator[str]:
    """Yield what is said about a phase, except for what its stories say anyway."""
    whole = " ".join(" ".join(story.text.split()) for story in stories)
    for line in lines:
        said = line.partition(": ")[2].strip(" .")
        if not said or " ".join(said.split()) not in whole:
            yield line


def _stories(spec: Spec, keys: Iterable[str]) -> list[Story]:
    found = {story.key: story for key in keys if (story := spec.story(key))}
    return list(found.values())


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


def note_spec(boxes: Sequence[BoxTask], spec: Spec, path: Path, inside: Path) -> Iterator[Notice]:
    """Yield what a person should know about spec.md: that it is missing, damaged, or about other stories."""
    if not path.is_file():
        yield Notice(1, "There is no spec.md beside tasks.md: tasks are judged by their own texts.")
        return
    if bad := find_bad_byte(read_file(path, inside)):
        text = f"Byte {bad[1]} of spec.md (line {bad[0]}) is not UTF-8; it is read as Windows-1252."
        yield Notice(1, text)
    yield from _note_stories(boxes, spec)


def _note_stories(boxes: Iterable[BoxTask], spec: Spec) -> Iterator[Notice]:
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
    boxes: Sequence[BoxTask], spec: Spec, tests_named: Mapping[str, str], waits: Waits
) -> tuple[Task, ...]:
    """Return the tasks with their criteria; those of a story are at its last open task.

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
        ending = [key for key in story_keys(box, spec) if is_open and counts[key] == 1]
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
