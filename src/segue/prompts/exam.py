"""The prompts for the exam: tests of a task by somebody who does not see the work."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from segue.domain.job import Prompt
from segue.domain.task import Task
from segue.prompts.assemble import assemble, criterion_text, task_text

_WRITE_TESTS = """\
You are in a git repository, in the current working directory, as it was before the task between the task \
markers below. Somebody else does the task; you do not see how. Write tests that tell from outside whether \
what the task asks for is done.

- Write tests only, in new files, where and as the project has its tests. Everything else you change is lost.
- Test what the task and its criteria say, nothing more: behaviour that others can see, not how it is done. \
Where they leave something open, do not test it.
- Ask for more than the examples that the task or the project's tests give: other values of the same kind, \
another order and size, nothing at all, the largest and smallest that are allowed, letters beyond ASCII; as \
far as the task says what comes out.
- Where a criterion states a law (what always holds, what undoes what, what does not matter), test it with \
many inputs, the same in each run.
- Use the names that the task gives, and the public names that exist. Do not guess others.
- Each test must fail now, because something is missing, and pass once the task is done.
- Give each assertion a message in words: the input, and the words of the task that say what comes out. Who \
fails a test is told that, and does not see the test.
- Leave out tests that need the network, other services, chance, or a certain time. At most 20 tests.
- Do not do the task. Do not commit.
- Nobody can answer questions. Finish with one sentence about what you tested."""

_MORE = """

Your earlier tests are in the repository, in the files with `independent` in their names. Write more tests, \
in other files; leave those as they are."""

_FAILED = """
- The work failed the tests that are listed as failed, and its author was told the inputs. Ask for the same \
in another way: other values, another order or size, so that whoever only adds the example fails again."""

_NAMES = """
- Under names are the public names that the work has made. Where the task does not name what it asks for, \
use these."""


class MoreTests(Struct, frozen=True):
    """Why tests are asked for; where nothing says so, these are the first ones of a task."""

    failed: tuple[str, ...] = ()
    """Tests that the work failed."""
    unnamed: tuple[str, ...] = ()
    """Names that tests used and nobody has given."""
    names: str = ""
    """The public names that the work has made."""


def exam_prompt(
    task: Task,
    context: str,
    interface: str,
    commands: Sequence[str],
    more: MoreTests | None = None,
    feedback: str | None = None,
    nonce: str | None = None,
) -> Prompt:
    """Ask for tests of a task, by its text and criteria alone."""
    more = more or MoreTests()
    parts = [
        _WRITE_TESTS,
        _MORE if more.failed or more.unnamed else "",
        _FAILED if more.failed else "",
        _NAMES if more.names else "",
    ]
    blocks = {
        "task": task_text(task),
        "criteria": "\n".join(f"- {criterion_text(criterion, task)}" for criterion in task.criteria),
        "interface": interface,
        "names": more.names,
        "failed": "\n".join(more.failed),
        "guessed": "\n".join(more.unnamed),
        "commands": "\n".join(commands),
        "context": context,
        "feedback": feedback,
    }
    return assemble("".join(parts), blocks, nonce)
