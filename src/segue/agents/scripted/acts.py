"""A script for the agent, and how an entry of it becomes acts, which its process (`child`) does in turn.

A script is a TOML file of `[[on]]` entries; the first one whose selectors match the launch is played:

    [[on]]
    task = "2"                              # selectors: task, phase, attempt; a missing one matches all
    attempt = 1
    write = { "src/hello.py" = "print()" }  # actions: see `ScriptedEntry`, `docs/guides/rehearsing.md`
    exit_code = 1

In plan and ask mode nothing is edited.

Each line that the process prints is one of

    {"type": "text", "text": …}
    {"type": "tool", "name": "Write" | "Edit" | "Bash", "input": {…}}
    {"type": "usage", "input_tokens": …, "output_tokens": …, "cost_usd": …}
    {"type": "result", "ok": true | false, "text": …}
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
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


Act = tuple[str, ...]
"""The name of an act, and its fields."""

_IDENTITY = ("-c", "user.name=Scripted agent", "-c", "user.email=scripted@localhost")


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


def write_acts(entry: ScriptedEntry, job: Job) -> str:
    """Return what the process reads: the acts, and the prompt."""
    acts = [*_make_acts(entry, job), ("exit", str(entry.exit_code))]
    parts = [" ".join([name, *map(_size, fields)]) + "\n" + "".join(fields) for name, *fields in acts]
    return f"{''.join(parts)}prompt\n{job.prompt.text}"


def _size(text: str) -> str:
    return str(len(text.encode("utf-8", "replace")))


def _make_acts(entry: ScriptedEntry, job: Job) -> Iterator[Act]:
    """Yield everything that the entry asks for, in the documented order."""
    names = {"task": job.labels.get("task", "1"), "attempt": job.labels.get("attempt", "1")}
    text, prompt = _answer(entry, job, names), len(job.prompt.text.encode("utf-8", "replace"))
    yield from _speak(entry, names)
    if entry.delay:
        yield "sleep", str(entry.delay)
    if entry.wait_for is not None:
        yield "wait_for", fill(entry.wait_for, names)
    if job.mode is Mode.EDIT:
        yield from _edit(entry, names)
    guess = {"input_tokens": prompt // 4, "output_tokens": len(text) // 4, "cost_usd": 0.0}
    named = {name: value for name, value in asdict(entry.usage).items() if value is not None}
    yield _line(type="usage", **guess | named)
    if entry.limit is not None:
        yield "print", fill(entry.limit, names) + "\n"
        return
    if entry.hang:
        yield ("hang",)
    if not entry.no_result:
        yield _line(type="result", ok=entry.exit_code == 0, text=text)


def _answer(entry: ScriptedEntry, job: Job, names: Mapping[str, str]) -> str:
    phase = job.labels.get("phase", "execute")
    if entry.plan is None and entry.say is None:
        answer = make_answer(phase, job.prompt.text, entry.verdict)
        if answer is not None:
            return answer
    if job.mode is Mode.PLAN:
        text = "1. Write what the task asks for.\n2. Check it." if entry.plan is None else entry.plan
    else:
        text = "Task {task}: done as the script says." if entry.say is None else entry.say
    return fill(text, names)


def _speak(entry: ScriptedEntry, names: Mapping[str, str]) -> Iterator[Act]:
    if entry.stderr is not None:
        yield "complain", fill(entry.stderr, names) + "\n"
    if entry.say is not None:
        yield _line(type="text", text=fill(entry.say, names))


def _edit(entry: ScriptedEntry, names: Mapping[str, str]) -> Iterator[Act]:
    for act, tool, files in (("write", "Write", entry.write), ("append", "Edit", entry.append)):
        for name, content in files.items():
            path, text = fill(name, names), fill(content, names)
            yield act, path, text
            yield _tool(tool, path=path, chars=len(text))
    for name, (before, after) in entry.edit.items():
        path, old, new = fill(name, names), fill(before, names), fill(after, names)
        yield "replace", path, old, new
        yield _tool("Edit", path=path, old=old, new=new)
    for name in entry.delete:
        path = fill(name, names)
        yield "delete", path
        yield _tool("Bash", command=f"rm {path}")
    for argv in entry.run:
        yield "run", *argv
        yield _tool("Bash", command=" ".join(argv))
    if entry.commit is not None:
        message = fill(entry.commit, names)
        yield "run", "git", "add", "--all"
        yield "run", "git", *_IDENTITY, "commit", "--quiet", "-m", message
        yield _tool("Bash", command=f"git commit -m {message!r}")


def fill(text: str, names: Mapping[str, str]) -> str:
    """Return the text with `{name}` replaced by its value; other braces stay as they are."""
    return re.sub(r"\{(\w+)\}", lambda found: names.get(found[1], found[0]), text)


def _tool(name: str, **values: Any) -> Act:
    return _line(type="tool", name=name, input=values)


def _line(**line: Any) -> tuple[str, str]:
    return "print", json.dumps(line) + "\n"
