"""The process of the scripted agent: reads a prompt, does what its script says, prints JSON lines.

It imports little, so that it starts fast. The script has been checked before (see `agent`, which also
describes its format). Each line it prints is one of

    {"type": "text", "text": …}
    {"type": "tool", "name": "Write" | "Edit" | "Bash", "input": {…}}
    {"type": "usage", "input_tokens": …, "output_tokens": …, "cost_usd": …}
    {"type": "result", "ok": true | false, "text": …}
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from segue.system.process.group import own_group
from segue.system.program import own_environment, part_command

_ORPHAN_SECONDS = 600
_NOISE_LINE = b"." * 1023 + b"\n"


class ScriptError(Exception):
    """The script asks for something that is not allowed."""


def main(arguments: list[str]) -> int:
    """Play the script: MODE [SCRIPT], with the prompt on stdin."""
    if arguments == ["--orphan"]:
        time.sleep(_ORPHAN_SECONDS)
        return 0
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # no traceback when it is stopped
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(encoding="utf-8", errors="replace", newline="\n")  # type: ignore[union-attr]
    mode, *script = arguments
    prompt = sys.stdin.buffer.read()
    names = {"task": os.environ.get("SEGUE_TASK", "1"), "attempt": os.environ.get("SEGUE_ATTEMPT", "1")}
    try:
        entry = _find_entry(script[0], names) if script else None
        return _play(entry if entry is not None else _make_note(names, prompt), mode, names, prompt)
    except (ScriptError, OSError, subprocess.CalledProcessError) as error:
        sys.stderr.write(f"Error: {error}\n")
        return 1


def _find_entry(script: str, names: dict[str, str]) -> dict[str, Any] | None:
    """Return the first entry that matches this launch."""
    from segue.sim.script import BadScript, Deck, equals, read_script  # most launches have no script

    try:
        entries: list[dict[str, Any]] = read_script(Path(script)).get("on", [])
    except BadScript as error:
        raise ScriptError(str(error)) from None
    facts = {**names, "phase": os.environ.get("SEGUE_PHASE", "execute")}
    return Deck(entries).pick({selector: equals(fact) for selector, fact in facts.items()})


def _make_note(names: dict[str, str], prompt: bytes) -> dict[str, Any]:
    """Return the entry for a launch without a script: write a small note, the same for the same prompt."""
    name = re.sub(r"[^A-Za-z0-9._-]+", "-", names["task"]).strip("-.") or "unnamed"
    digest = hashlib.sha256(prompt).hexdigest()[:16]
    text = f"# Task {names['task']}\n\nDone by the scripted agent for the prompt {digest}.\n"
    return {"write": {f"notes/task-{name}.md": text}}


def _play(entry: dict[str, Any], mode: str, names: dict[str, str], prompt: bytes) -> int:
    """Do everything that the entry asks for, in the documented order."""
    code: int = entry.get("exit_code", 0)
    text = _answer(entry, mode, names, prompt)
    _speak(entry, names)
    time.sleep(entry.get("delay", 0))
    if mode == "edit":
        _edit(entry, names)
    if entry.get("orphan"):
        myself = part_command("--segue-scripted", "segue.agents.scripted.child")
        orphan = [*myself, "--orphan"]
        subprocess.Popen(orphan, env=own_environment(), stdin=subprocess.DEVNULL, **own_group())
    _print_line(type="usage", **_read_usage(entry, prompt, text))
    if "limit" in entry:
        _print(_fill(entry["limit"], names) + "\n")
        return code
    while entry.get("hang"):
        time.sleep(_ORPHAN_SECONDS)
    if entry.get("truncate"):
        _print(json.dumps({"type": "result", "ok": True, "text": text})[:-2])
    elif not entry.get("no_result"):
        _print_line(type="result", ok=code == 0, text=text)
    return code


def _answer(entry: dict[str, Any], mode: str, names: dict[str, str], prompt: bytes) -> str:
    phase = os.environ.get("SEGUE_PHASE", "execute")
    if phase in ("outline", "replan", "verify", "search") and not entry.keys() & {"plan", "say"}:
        from segue.agents.scripted.answers import make_answer

        return make_answer(phase, prompt.decode("utf-8", "replace"), entry.get("verdict")) or ""
    if mode == "plan":
        text: str = entry.get("plan", "1. Write what the task asks for.\n2. Check it.")
    else:
        text = entry.get("say", "Task {task}: done as the script says.")
    return _fill(text, names)


def _speak(entry: dict[str, Any], names: dict[str, str]) -> None:
    if "stderr" in entry:
        sys.stderr.write(_fill(entry["stderr"], names) + "\n")
        sys.stderr.flush()
    if "say" in entry:
        _print_line(type="text", text=_fill(entry["say"], names))
    left: int = entry.get("output_bytes", 0)
    block = _NOISE_LINE * 64
    while left > 0:
        sys.stdout.buffer.write(block[:left])
        left -= len(block)
    sys.stdout.buffer.flush()


def _edit(entry: dict[str, Any], names: dict[str, str]) -> None:
    for key, tool, how in (("write", "Write", "w"), ("append", "Edit", "a")):
        for name, content in entry.get(key, {}).items():
            path, text = _resolve(_fill(name, names)), _fill(content, names)
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open(how, encoding="utf-8", newline="") as file:
                file.write(text)
            _print_line(type="tool", name=tool, input={"path": _fill(name, names), "chars": len(text)})
    for name, (old, new) in entry.get("edit", {}).items():
        _replace(_fill(name, names), _fill(old, names), _fill(new, names))
    for name in entry.get("delete", []):
        _resolve(_fill(name, names)).unlink()
        _print_line(type="tool", name="Bash", input={"command": f"rm {_fill(name, names)}"})
    commands = entry.get("run", [])
    for command in [commands] if isinstance(commands, str) else commands:
        _run(command)
    if "commit" in entry:
        _commit(_fill(entry["commit"], names))


def _resolve(name: str) -> Path:
    """Return the path; raises ScriptError unless it is in the workspace and not in .git."""
    root = Path.cwd().resolve()
    path = (root / name).resolve()
    if root not in path.parents or root / ".git" in (path, *path.parents):
        raise ScriptError(f"the script may not change {name!r}: it is not a file of the workspace")
    return path


def _replace(name: str, old: str, new: str) -> None:
    path = _resolve(name)
    text = path.read_bytes().decode("utf-8")
    if old not in text:
        raise ScriptError(f"{name} does not contain {old!r}")
    path.write_bytes(text.replace(old, new).encode("utf-8"))
    _print_line(type="tool", name="Edit", input={"path": name, "old": old, "new": new})


def _run(command: str | list[str]) -> None:
    from segue.domain.argv import split  # few scripts run commands

    argv = split(command) if isinstance(command, str) else command
    subprocess.run(argv, check=True, stdin=subprocess.DEVNULL, capture_output=True)
    _print_line(type="tool", name="Bash", input={"command": " ".join(argv)})


def _commit(message: str) -> None:
    who = ["-c", "user.name=Scripted agent", "-c", "user.email=scripted@localhost"]
    subprocess.run(["git", "add", "--all"], check=True, capture_output=True)
    subprocess.run(["git", *who, "commit", "--quiet", "-m", message], check=True, capture_output=True)
    _print_line(type="tool", name="Bash", input={"command": f"git commit -m {message!r}"})


def _read_usage(entry: dict[str, Any], prompt: bytes, text: str) -> dict[str, Any]:
    guess = {"input_tokens": len(prompt) // 4, "output_tokens": len(text) // 4, "cost_usd": 0.0}
    return {**guess, **entry.get("usage", {})}


def _fill(text: str, names: dict[str, str]) -> str:
    """Return the text with {task} and {attempt} replaced; other braces stay as they are."""
    for name, value in names.items():
        text = text.replace("{" + name + "}", value)
    return text


def _print_line(**line: Any) -> None:
    _print(json.dumps(line) + "\n")


def _print(text: str) -> None:
    sys.stdout.write(text)
    sys.stdout.flush()
