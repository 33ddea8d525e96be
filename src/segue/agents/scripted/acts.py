"""The script of the agent, and the acts that its process (`child`) does for one entry of it.

A script is a TOML file of `[[on]]` entries; the first one whose selectors match the launch is played:

    [[on]]
    task = "2"                              # selectors: task, phase, attempt; a missing one matches all
    attempt = 1
    write = { "src/hello.py" = "print()" }  # actions: see `ScriptedEntry`, `docs/guides/rehearsing.md`
    exit_code = 1

In plan and ask mode nothing is edited.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Annotated, Any

from msgspec import Meta
from msgspec.structs import asdict

from segue.agents.scripted.answers import VerdictEntry, make_answer
from segue.domain.errors import UsageError
from segue.domain.job import Job, Mode
from segue.domain.options import Commands, NonNegativeFloat, OptionError, Options, read_options
from segue.system.reading import explain_unreadable

NonNegative = Annotated[int, Meta(ge=0)]


class UsageEntry(Options, frozen=True):
    """What the agent says it used; what is missing is estimated from the length of the prompt."""

    input_tokens: NonNegative | None = None
    output_tokens: NonNegative | None = None
    cost_usd: NonNegativeFloat | None = None


class ScriptedEntry(Options, frozen=True):
    """One `[[on]]` table: three selectors, then the actions in the order in which they are done."""

    task: str | int | None = None
    """Matches the task with this key."""
    phase: str | None = None
    """Matches this phase: `execute`, `plan`, …"""
    attempt: Annotated[int, Meta(ge=1)] | None = None
    """Matches the attempt with this number, from 1."""
    stderr: str | None = None
    """Print this on stderr."""
    say: str | None = None
    """Say this, and give it as the result."""
    delay: NonNegativeFloat = 0
    """Wait this many seconds."""
    wait_for: str | None = None
    """Wait until this file exists."""
    write: dict[str, str] = {}
    """Write files: path = content."""
    append: dict[str, str] = {}
    """Append to files: path = content."""
    edit: dict[str, tuple[str, str]] = {}
    """Replace text in files: path = [old, new]; a file without it ends the agent."""
    delete: list[str] = []
    """Delete files."""
    run: Commands = Commands()
    """Run commands without a shell; one that fails ends the agent."""
    commit: str | None = None
    """Commit everything with this message, which agents should leave to Segue."""
    usage: UsageEntry = UsageEntry()
    """Report `input_tokens`, `output_tokens` and `cost_usd`; missing ones are estimated."""
    limit: str | None = None
    """Print this line and give up without a result."""
    hang: bool = False
    """Never end."""
    no_result: bool = False
    """End without a result line."""
    plan: str | None = None
    """The result in plan mode."""
    verdict: VerdictEntry = VerdictEntry()
    """Answer as a judge: `unmet` (keys of criteria, or "all"), `evidence`, `action`, `request`, `caveats`."""
    exit_code: Annotated[int, Meta(ge=0, le=255)] = 0
    """End with this exit code."""

    def __post_init__(self) -> None:
        for key in ("write", "append", "edit", "delete"):
            for path in getattr(self, key):
                if not path or PurePosixPath(path).is_absolute() or ".." in PurePosixPath(path).parts:
                    raise OptionError(key, f"{path!r} is not a path inside the workspace")


class AgentScript(Options, frozen=True):
    """A whole script."""

    on: list[ScriptedEntry] = []


def load_script(path: Path) -> AgentScript:
    """Read and check a script; raises UsageError that names the file and the key."""
    try:
        return read_options(AgentScript, tomllib.loads(path.read_text(encoding="utf-8")))
    except OptionError as error:
        # People count entries from one.
        place = re.sub(r"\[(\d+)\]", lambda found: f"[{int(found[1]) + 1}]", error.path)
        hint = "`docs/guides/rehearsing.md` lists every key."
        raise UsageError(f"{path}: {place}: {error.message}", hint=hint) from None
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        hint = "See docs/guides/rehearsing.md"
        raise UsageError(f"The script {explain_unreadable(path, error)}", hint=hint) from None


def pick_entry(entries: Sequence[ScriptedEntry], job: Job) -> ScriptedEntry | None:
    """Return the first entry that matches this launch."""
    facts = {"task": "1", "attempt": "1", "phase": "execute", **job.labels}
    for entry in entries:
        wanted = {name: getattr(entry, name) for name in ("task", "attempt", "phase")}
        if all(value is None or str(value) == facts[name] for name, value in wanted.items()):
            return entry
    return None


def make_note(job: Job) -> dict[str, str]:
    """Return the file for a launch without a script: a small note, the same for the same prompt."""
    task = job.labels.get("task", "1")
    name = re.sub(r"[^A-Za-z0-9._-]+", "-", task).strip("-.") or "unnamed"
    text = f"# Task {task}\n\nDone by the scripted agent for the prompt {job.prompt.digest}.\n"
    return {f"notes/task-{name}.md": text}


def make_acts(entry: ScriptedEntry, job: Job) -> Iterator[tuple[Any, ...]]:
    """Yield the name and the values of each act that the entry asks for, in the documented order."""
    names = {"task": job.labels.get("task", "1"), "attempt": job.labels.get("attempt", "1")}
    fill = partial(_fill, names)
    text, prompt = _answer(entry, job, fill), len(job.prompt.text.encode("utf-8", "replace"))
    if entry.stderr is not None:
        yield "complain", fill(entry.stderr)
    if entry.say is not None:
        yield "print", {"type": "text", "text": fill(entry.say)}
    if entry.delay:
        yield "sleep", entry.delay
    if entry.wait_for is not None:
        yield "wait_for", fill(entry.wait_for)
    if job.mode is Mode.EDIT:
        yield from _edit(entry, fill)
    guess = {"input_tokens": prompt // 4, "output_tokens": len(text) // 4, "cost_usd": 0.0}
    named = {name: value for name, value in asdict(entry.usage).items() if value is not None}
    yield "print", {"type": "usage", **guess, **named}
    if entry.limit is not None:
        yield "say", fill(entry.limit)
        return
    if entry.hang:
        yield ("hang",)
    if not entry.no_result:
        yield "print", {"type": "result", "text": text}


def _edit(entry: ScriptedEntry, fill: Callable[[str], str]) -> Iterator[tuple[str, ...]]:
    for act, files in (("write", entry.write), ("append", entry.append)):
        yield from ((act, fill(path), fill(text)) for path, text in files.items())
    for path, (old, new) in entry.edit.items():
        yield "replace", fill(path), fill(old), fill(new)
    yield from (("delete", fill(path)) for path in entry.delete)
    yield from (("run", *argv) for argv in entry.run)
    if entry.commit is not None:
        yield "commit", fill(entry.commit)


def _answer(entry: ScriptedEntry, job: Job, fill: Callable[[str], str]) -> str:
    if entry.plan is None and entry.say is None:
        answer = make_answer(job.labels.get("phase", "execute"), job.prompt.text, entry.verdict)
        if answer is not None:
            return answer
    if job.mode is Mode.PLAN:
        return fill("1. Write what the task asks for.\n2. Check it." if entry.plan is None else entry.plan)
    return fill("Task {task}: done as the script says." if entry.say is None else entry.say)


def _fill(names: Mapping[str, str], text: str) -> str:
    """Return the text with `{name}` replaced by its value; other braces stay as they are."""
    return re.sub(r"\{(\w+)\}", lambda found: names.get(found[1], found[0]), text)
