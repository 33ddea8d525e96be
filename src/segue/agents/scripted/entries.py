"""The scripts: TOML files of `[[on]]` entries; the first one whose selectors match the launch is played.

    [[on]]
    task = "2"                              # selectors: task, phase, attempt; a missing one matches all
    attempt = 1
    write = { "src/hello.py" = "print()" }  # actions: see `ScriptedEntry`, `segue help scripted-agent`
    exit_code = 1

In plan and ask mode nothing is edited.
"""

from __future__ import annotations

import re
import tomllib
from pathlib import Path, PurePosixPath
from typing import Annotated, Literal

from msgspec import Meta

from segue.domain.errors import UsageError
from segue.domain.options import Commands, NonNegativeFloat, OptionError, Options, read_options
from segue.system.reading import explain_unreadable

NonNegative = Annotated[int, Meta(ge=0)]


class UsageEntry(Options, frozen=True):
    """What the agent says it used; what is missing is estimated from the length of the prompt."""

    input_tokens: NonNegative | None = None
    output_tokens: NonNegative | None = None
    cost_usd: NonNegativeFloat | None = None


class VerdictEntry(Options, frozen=True):
    """What the agent answers in the phase `verify`; criteria that are not named are met."""

    unmet: list[str] | Literal["all"] = []
    """The keys of criteria that are not met."""
    evidence: str = "nothing shows it"
    """What to say about them."""
    action: str | None = None
    """What should follow; RETRY if a criterion is not met."""
    request: str = ""
    """What the action needs."""
    caveats: list[str] = []
    """What the later steps must know."""


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
    output_bytes: NonNegative = 0
    """Print this many bytes of noise."""
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
    orphan: bool = False
    """Leave a background process behind."""
    usage: UsageEntry = UsageEntry()
    """Report `input_tokens`, `output_tokens` and `cost_usd`; missing ones are estimated."""
    limit: str | None = None
    """Print this line and give up without a result."""
    hang: bool = False
    """Never end."""
    truncate: bool = False
    """Stop in the middle of the result line."""
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
        hint = "`segue help scripted-agent` lists every key."
        raise UsageError(f"{path}: {place}: {error.message}", hint=hint) from None
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        hint = "See: segue help scripted-agent"
        raise UsageError(f"The script {explain_unreadable(path, error)}", hint=hint) from None
