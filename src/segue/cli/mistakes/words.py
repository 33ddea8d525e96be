"""What people call commands, options and settings elsewhere, and what that is here."""

from __future__ import annotations

from segue.domain.text import find_nearest

_LONG_ENOUGH, _ALIKE = 5, 0.85
"""How long a word must be to be misspelt, and how much like the right one it is then."""

COMMANDS = {
    "run": "start begin go do work exec execute build launch",
    "status": "ls list ps runs history jobs show info summary view describe details running",
    "logs": "tail output events",
    "logs --follow": "watch attach",
    "serve --open": "open web ui gui dashboard browser",
    "stop": "kill cancel abort pause halt quit exit",
    "resume": "continue retry rerun restart again approve unpause",
    "task comment": "reject feedback",
    "task list": "tasks plan todo validate",
    "proof": "diff evidence verify result results",
    "report": "cost costs usage stats tokens",
    "agent list": "agents models",
    "config list": "settings preferences env",
    "config explain": "get unset",
    "doctor --agents": "login logout auth",
    "doctor": "health diagnose",
    "init": "setup new create configure",
    "check": "test prove lint",
    "demo": "example tutorial quickstart",
    "gc --dry-run": "clean cleanup prune delete rm remove",
    "help": "man manual docs",
    "help installing": "install uninstall update upgrade",
    "help running": "undo revert rollback reset",
    "help pull-requests": "merge push deliver ship",
    "--version": "version",
    "help exit-codes": "exit-codes",
}
"""Command → the words by which others call it."""

INNER = {
    "config list": {"config": "show edit ls"},
    "config explain": {"config": "get describe help unset reset delete"},
    "config set": {"config": "add change"},
    "proof last": {"task": "show open view info status diff"},
    "task list": {"task": "ls all"},
    "task comment": {"task": "reject feedback reopen"},
    "help tasks": {"task": "add new create rm remove move"},
    "task accept": {"task": "approve done complete"},
    "run --task": {"task": "run start retry redo"},
    "agent list": {"agent": "ls"},
    "agent schema": {"agent": "show info describe options"},
    "doctor --agents": {"agent": "install add login auth"},
    "agent try": {"agent": "test check run"},
    "config set agent": {"agent": "use set default switch select"},
}
"""Command → group → the words by which others call it there."""

OPTIONS = {
    "--jobs": "--parallel --workers --threads --concurrency -p -n",
    "--task": "--tasks --only --id --key -t",
    "--from": "--start-at --start-from --begin-at",
    "--dry-run": "--preview --dry --simulate -n",
    "--yes": "--force --no-input --non-interactive --auto",
    "--agent": "--agents --with --tool -a",
    "--worktree": "--branch --new-branch -b",
    "--detach": "--background --daemon --bg -d",
    "--serve": "--watch --open --web --ui",
    "--follow": "--tail --watch --live",
    "--pr": "--pull-request --create-pr --open-pr",
    "--repo": "--path --dir --directory --cwd --folder",
    "--restart": "--fresh --reset --clean",
    "--isolation none": "--no-sandbox --unsafe --yolo --dangerously-skip-permissions",
    "--isolation": "--sandbox",
    "--review none": "--no-review",
    "--fail-fast": "--stop-on-error --exit-on-error --bail",
    "--reason": "--message -m",
    "--port": "-p",
    "--limit": "--tail --lines --last --max",
    "--quiet": "--silent -s",
    "--plan-changed": "--commits-missing",
    "--model": "--llm --engine -m",
}
"""Option → what others call it. An option with two meanings takes the one that its command has."""

POSITIONAL = "--run --run-id --plan --file --spec --input --id --name --key -f -i"
"""Options whose value is an argument here."""

LINES = {
    "logs --follow": {"status": "--watch --follow -f"},
    "status last": {"status": "--last --latest"},
    "logs last": {"logs": "--last --latest"},
    "proof last": {"proof": "--last --latest"},
    "resume": {"resume": "--last --latest"},
    "serve --open": {"proof": "--watch --open --web"},
    "config set NAME VALUE": {"init": "--force"},
    "trust --show": {"trust": "--list --dry-run"},
    "config set agent": {"init": "--agent"},
    "task skip": {"run": "--exclude --except --without"},
    "config set checks": {"init": "--checks --check --test"},
}
"""Command → another one with those of its options that the first stands for."""

VALUES = {
    "container": "docker podman oci",
    "none": "off no false disabled",
    "never": "no none off false",
    "tested": "proven proved",
    "text": "plain human",
}
"""Value of an option → what others call it."""

SETTINGS = {
    "limits.cost_usd": "--budget --max-cost --cost --max-budget",
    "limits.phase_timeout": "--timeout --time-limit --max-time",
    "limits.attempts": "--retries --max-retries --tries --iterations --turns",
    "checks": "--check --test --tests --test-command",
    "require": "--level --proof",
}
"""Setting → the options that people expect for it; its own name is understood as well."""


def meanings(table: dict[str, str], word: str) -> list[str]:
    """Return what a word means here, the most likely first; an option that is misspelt means the same."""
    exact = [ours for ours, theirs in table.items() if word in theirs.split()]
    if exact or len(word) < _LONG_ENOUGH or not word.startswith("--"):
        return exact
    theirs_all = [one for theirs in table.values() for one in theirs.split()]
    near = find_nearest(word, [one for one in theirs_all if _denies(one) == _denies(word)], _ALIKE)
    parts = {f"--{part}" for part in word.split("-") if part}
    # A number of tasks is no task.
    known = {*([near] if near else []), *parts} - ({"--tasks", "--task"} if "--max" in parts else set())
    return [ours for ours, theirs in table.items() if known & set(theirs.split())]


def _denies(option: str) -> bool:
    """Return whether an option says that something is not so."""
    return not {"no", "non", "not", "never"}.isdisjoint(option.strip("-").split("-"))


def inner_meanings(table: dict[str, dict[str, str]], group: str, word: str) -> list[str]:
    """Return what a word means here when it follows `group`."""
    found = [ours for ours, theirs in table.items() if word in theirs.get(group, "").split()]
    if found or len(word) != len("-x") or not word.startswith("-"):
        return found
    # One letter stands for the word that begins with it.
    return [ours for ours, theirs in table.items() if f" -{word}" in f" {theirs.get(group, '')}"]
