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
many inputs: with the library under installed, else in a loop. Let each run try the same inputs \
(derandomize=True, deadline=None, database=None; a fixed seed).
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

_SURVIVORS = """
- Under survivors are wrong versions of single lines of the work that all tests pass. Where the task says \
which version is right, write a test that only the right one passes, whichever that is: the work itself may \
be wrong. Where the task leaves it open, write none."""

_REPEATS = """
- Your earlier tests ask for nothing but the examples that the task and the project's tests give. Who \
does the task knows these. Ask for other values where the task says what comes out, and else write none."""


_NAMES = """
- Under names are the public names that the work has made. Where the task does not name what it asks for, \
use these."""


_KEEPS = """
- The task asks for other code that does the same. So test above all what the code does now, through the \
names that stay: values of each kind, edge cases, errors. Unlike other tests, these pass now and must pass \
once the task is done."""


class MoreTests(Struct, frozen=True):
    """Why tests are asked for; where nothing says so, these are the first ones of a task."""

    keeps: bool = False
    """Whether the task asks for the same behaviour."""
    failed: tuple[str, ...] = ()
    """Tests that the work failed."""
    survivors: tuple[str, ...] = ()
    """Mutants of the work that no test noticed."""
    unnamed: tuple[str, ...] = ()
    """Names that tests used and nobody has given."""
    names: str = ""
    """The public names that the work has made."""
    repeats: bool = False
    """Whether the tests so far ask for nothing but examples that the worker sees."""
    installed: tuple[str, ...] = ()
    """Libraries for properties that the checks can use."""


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
    again = bool(more.failed or more.survivors or more.unnamed or more.repeats)
    parts = [
        _WRITE_TESTS,
        _KEEPS if more.keeps else "",
        _MORE if again else "",
    ]
    parts += [_FAILED if more.failed else "", _REPEATS if more.repeats else ""]
    parts += [_SURVIVORS if more.survivors else "", _NAMES if more.names else ""]
    blocks = {
        "task": task_text(task),
        "criteria": "\n".join(f"- {criterion_text(criterion, task)}" for criterion in task.criteria),
        "interface": interface,
        "names": more.names,
        "failed": "\n".join(more.failed),
        "survivors": "\n".join(more.survivors),
        "guessed": "\n".join(more.unnamed),
        "commands": "\n".join(commands),
        "installed": "\n".join(more.installed),
        "context": context,
        "feedback": feedback,
    }
    return assemble("".join(parts), blocks, nonce)
