"""The process of the scripted agent: reads a prompt, does what its script says, prints JSON lines.

It imports little, so that it starts fast. The script has been checked before (see `agent`, which also
describes its format). Each line it prints is one of

    {"type": "text", "text": …}
    {"type": "tool", "name": "Write" | "Edit" | "Bash", "input": {…}}
    {"type": "usage", "input_tokens": …, "output_tokens": …, "cost_usd": …}
    {"type": "result", "ok": true | false, "text": …}
"""

from __future__ import annotations

import json
import os
import re
import signal
import sys
import time
from pathlib import Path
from typing import Any

from segue.sim.script import BadScript, Deck, equals, fill, find_file, hang, read_block, read_script

_NOISE_LINE = b"." * 1023 + b"\n"


def main(arguments: list[str]) -> int:
    """Play the script: MODE [SCRIPT], with the prompt on stdin."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # no traceback when it is stopped
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(encoding="utf-8", errors="replace", newline="\n")  # type: ignore[union-attr]
    mode, *script = arguments
    prompt = sys.stdin.buffer.read()
    names = {"task": os.environ.get("SEGUE_TASK", "1"), "attempt": os.environ.get("SEGUE_ATTEMPT", "1")}
    try:
        entry = _find_entry(script[0], names) if script else None
        return _play(entry if entry is not None else _make_note(names, prompt), mode, names, prompt)
    except (BadScript, OSError) as error:
        sys.stderr.write(f"Error: {error}\n")
        return 1


def _find_entry(script: str, names: dict[str, str]) -> dict[str, Any] | None:
    """Return the first entry that matches this launch."""
    entries: list[dict[str, Any]] = read_script(Path(script)).get("on", [])
    facts = {**names, "phase": os.environ.get("SEGUE_PHASE", "execute")}
    return Deck(entries).pick({selector: equals(fact) for selector, fact in facts.items()})


def _make_note(names: dict[str, str], prompt: bytes) -> dict[str, Any]:
    """Return the entry for a launch without a script: write a small note, the same for the same prompt."""
    import hashlib  # like other imports in this file: slow, and most scripts do without

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
    while "wait_for" in entry and not Path(fill(entry["wait_for"], names)).exists():
        time.sleep(0.02)
    if mode == "edit":
        _edit(entry, names)
    if entry.get("orphan"):
        from segue.sim.orphan_child import leave_orphan

        leave_orphan()
    guess = {"input_tokens": len(prompt) // 4, "output_tokens": len(text) // 4, "cost_usd": 0.0}
    _print_line(type="usage", **{**guess, **entry.get("usage", {})})
    if "limit" in entry:
        _print(fill(entry["limit"], names) + "\n")
        return code
    if entry.get("hang"):
        hang()
    if entry.get("truncate"):
        _print(json.dumps({"type": "result", "ok": True, "text": text})[:-2])
    elif not entry.get("no_result"):
        _print_line(type="result", ok=code == 0, text=text)
    return code


def _answer(entry: dict[str, Any], mode: str, names: dict[str, str], prompt: bytes) -> str:
    phase = os.environ.get("SEGUE_PHASE", "execute")
    if phase in ("outline", "replan", "verify", "search") and not entry.keys() & {"plan", "say"}:
        return make_answer(phase, prompt.decode("utf-8", "replace"), entry.get("verdict")) or ""
    if mode == "plan":
        text: str = entry.get("plan", "1. Write what the task asks for.\n2. Check it.")
    else:
        text = entry.get("say", "Task {task}: done as the script says.")
    return fill(text, names)


def _speak(entry: dict[str, Any], names: dict[str, str]) -> None:
    if "stderr" in entry:
        sys.stderr.write(fill(entry["stderr"], names) + "\n")
        sys.stderr.flush()
    if "say" in entry:
        _print_line(type="text", text=fill(entry["say"], names))
    left: int = entry.get("output_bytes", 0)
    block = _NOISE_LINE * 64
    while left > 0:
        sys.stdout.buffer.write(block[:left])
        left -= len(block)
    sys.stdout.buffer.flush()


def _edit(entry: dict[str, Any], names: dict[str, str]) -> None:
    for key, tool, how in (("write", "Write", "w"), ("append", "Edit", "a")):
        for name, content in entry.get(key, {}).items():
            path, text = find_file(Path.cwd(), fill(name, names)), fill(content, names)
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open(how, encoding="utf-8", newline="") as file:
                file.write(text)
            _print_line(type="tool", name=tool, input={"path": fill(name, names), "chars": len(text)})
    for name, (old, new) in entry.get("edit", {}).items():
        _replace(fill(name, names), fill(old, names), fill(new, names))
    for name in entry.get("delete", []):
        find_file(Path.cwd(), fill(name, names)).unlink()
        _print_line(type="tool", name="Bash", input={"command": f"rm {fill(name, names)}"})
    commands = entry.get("run", [])
    for command in [commands] if isinstance(commands, str) else commands:
        _run(command)
    if "commit" in entry:
        _commit(fill(entry["commit"], names))


def _replace(name: str, old: str, new: str) -> None:
    path = find_file(Path.cwd(), name)
    text = path.read_bytes().decode("utf-8")
    if old not in text:
        raise BadScript(f"{name} does not contain {old!r}")
    path.write_bytes(text.replace(old, new).encode("utf-8"))
    _print_line(type="tool", name="Edit", input={"path": name, "old": old, "new": new})


def _run(command: str | list[str]) -> None:
    from segue.domain.argv import split

    argv = split(command) if isinstance(command, str) else command
    _call(argv)
    _print_line(type="tool", name="Bash", input={"command": " ".join(argv)})


def _commit(message: str) -> None:
    who = ["-c", "user.name=Scripted agent", "-c", "user.email=scripted@localhost"]
    _call(["git", "add", "--all"])
    _call(["git", *who, "commit", "--quiet", "-m", message])
    _print_line(type="tool", name="Bash", input={"command": f"git commit -m {message!r}"})


def _call(argv: list[str]) -> None:
    import subprocess

    try:
        subprocess.run(argv, check=True, stdin=subprocess.DEVNULL, capture_output=True)
    except subprocess.CalledProcessError as error:
        raise BadScript(str(error)) from None


def _print_line(**line: Any) -> None:
    _print(json.dumps(line) + "\n")


def _print(text: str) -> None:
    sys.stdout.write(text)
    sys.stdout.flush()


_STEPS = [
    ("Set the project up", "setup"),
    ("Write the main part", "backend"),
    ("Test it", "testing"),
]


def make_answer(phase: str, prompt: str, verdict: dict[str, Any] | None) -> str | None:
    """Return the answer for a phase; None if the phase asks for no particular form."""
    if phase == "outline":
        steps = [_make_step(place, title, kind) for place, (title, kind) in enumerate(_STEPS, 1)]
        return json.dumps({"steps": steps})
    if phase == "replan":
        keys = re.findall(r"^(\d+): ", (read_block("rest", prompt) or ""), re.MULTILINE)
        return json.dumps({"steps": [{"keep": key} for key in keys]})
    if phase == "verify":
        return json.dumps(_make_verdict(prompt, verdict or {}))
    if phase == "search":
        asked = read_block("question", prompt) or ""
        return f"The documentation says how: https://docs.example.com/{len(asked)}"
    return None


def _make_step(place: int, title: str, kind: str) -> dict[str, Any]:
    return {
        "id": str(place),
        "title": title,
        "description": f"{title}, as the goal asks.",
        "build_phase": kind,
        "acceptance": [f"{title}: a file shows it"],
        "depends_on": [str(place - 1)] if place > 1 else [],
    }


def _make_verdict(prompt: str, rule: dict[str, Any]) -> dict[str, Any]:
    """Return a verdict: all criteria but those in `unmet` are met; the quote is the first added line."""
    unmet = rule.get("unmet", [])
    quote = _find_quote(prompt)
    entries = []
    for line in (read_block("criteria", prompt) or "").splitlines():
        key = json.loads(line)["key"]
        missed = unmet == "all" or key in unmet or quote is None
        evidence = rule.get("evidence", "nothing shows it") if missed else quote
        entries.append({"key": key, "met": not missed, "evidence": evidence})
    action = rule.get("action", "RETRY" if any(not entry["met"] for entry in entries) else "PROCEED")
    advice = {"request": rule.get("request", ""), "caveats": rule.get("caveats", [])}
    return {"criteria": entries, "reasoning": "As the script says.", "action": action, **advice}


def _find_quote(prompt: str) -> str | None:
    added = re.search(r"^\+(?!\+\+)(.*\S.*)$", (read_block("diff", prompt) or ""), re.MULTILINE)
    return added[1].strip() if added else None
