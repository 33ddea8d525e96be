"""Prompts for work that does not fit what others have merged: do it again, or merge the two versions."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from segue.domain.amounts import list_some
from segue.domain.job import Prompt
from segue.domain.task import Task
from segue.domain.workspace import Collision, split_diff
from segue.prompts.assemble import assemble, house_rules, task_text
from segue.prompts.task import kind_rules

_MERGE = """\
You are working in a git repository, in the current working directory. The task between the task markers \
below has been done, and so has other work at the same time. Both are in the work tree now, but they \
collide: the files named below contain git's conflict markers. Merge the two versions.

- Lines between `<<<<<<<` and `=======` are the other work; those between `=======` and `>>>>>>>` are this \
task's. Keep the intention of both. Never drop one of them because that is easier.
- A file that one side has deleted or renamed has no markers: decide whether it is still needed.
- When you finish, no file contains a conflict marker, and nothing else has changed.
{rules}
{kind}
- Nobody can answer questions.
- Finish with one paragraph: how you merged each file."""

_MOST_DIFF = 40_000
_MOST_REASON = 8_000
_MOST_NAMED = 20
_LONGEST_NAME = 300


def describe_collision(collision: Collision) -> str:
    """Tell an agent whose task is done again why that is; this is feedback, and bounded."""
    parts = [_say_what_happened(collision)]
    parts.append("The work tree contains their work now, and yours no more. Do the task again on top of it.")
    shown, left_out = limit_diff(collision)
    if shown:
        parts.append(f"Your earlier change, as a diff; use what still fits:\n\n{shown.rstrip()}")
    if left_out:
        parts.append(f"Left out because of its size: your change of {_list(left_out)}.")
    return "\n\n".join(parts)


def merge_prompt(
    task: Task,
    context: str,
    collision: Collision,
    feedback: str | None = None,
    nonce: str | None = None,
    cloud: bool = False,
    comments: Iterable[str] = (),
) -> Prompt:
    """Ask to merge the work of a task with that of others, in a work tree with conflict markers."""
    blocks = {
        "task": task_text(task),
        "comments": "\n\n".join(comments),
        "collision": _say_what_happened(collision),
        "context": context,
        "feedback": feedback,
    }
    return assemble(_MERGE.format(rules=house_rules(cloud), kind=kind_rules(task)), blocks, nonce)


def limit_diff(collision: Collision, most: int = _MOST_DIFF) -> tuple[str, list[str]]:
    """Return as much of the diff as fits, whole files and colliding ones first, and the files left out."""
    files = split_diff(collision.diff)
    room, kept = most, set()
    for number in sorted(range(len(files)), key=lambda n: (files[n].path not in collision.files, n)):
        if len(files[number].text) <= room:
            kept.add(number)
            room -= len(files[number].text)
    shown = "".join(file.text for number, file in enumerate(files) if number in kept)
    return shown, [file.path for number, file in enumerate(files) if number not in kept]


def _say_what_happened(collision: Collision) -> str:
    named = [f"{key} ({title})" if title else key for key, title in collision.others.items()]
    if not named:
        who = "While this task was worked on, somebody committed other work."
    elif len(named) == 1:
        who = f"While this task was worked on, task {_list(named)} was merged."
    else:
        who = f"While this task was worked on, these tasks were merged: {_list(named)}."
    if collision.files:
        what = f"The work on this task does not fit it: both changed {_list(collision.files)}."
    else:
        what = "The work on this task can be merged with it, but the result is not right."
    reason = collision.reason.strip()[-_MOST_REASON:]
    return "\n\n".join(filter(None, (f"{who} {what}", reason)))


def _list(names: Sequence[str]) -> str:
    """Return the first names, in one line and bounded."""
    shown = [" ".join(name.split())[:_LONGEST_NAME] for name in names]
    return list_some(shown, _MOST_NAMED)
