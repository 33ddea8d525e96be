"""Turn an entry of a script into the acts of the agent's process, which `child` does one after the other.

Each line that the process prints is one of

    {"type": "text", "text": …}
    {"type": "tool", "name": "Write" | "Edit" | "Bash", "input": {…}}
    {"type": "usage", "input_tokens": …, "output_tokens": …, "cost_usd": …}
    {"type": "result", "ok": true | false, "text": …}
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from msgspec.structs import asdict

from segue.agents.scripted.entries import ScriptedEntry, VerdictEntry
from segue.domain.job import Job, Mode
from segue.sim.script import Deck, equals, fill, read_block

_STEPS = [
    ("Set the project up", "setup"),
    ("Write the main part", "backend"),
    ("Test it", "testing"),
]


def make_answer(phase: str, prompt: str, verdict: VerdictEntry) -> str | None:
    """Return the answer for a phase; None if the phase asks for no particular form."""
    if phase == "outline":
        steps = [_make_step(place, title, kind) for place, (title, kind) in enumerate(_STEPS, 1)]
        return json.dumps({"steps": steps})
    if phase == "replan":
        keys = re.findall(r"^(\d+): ", (read_block("rest", prompt) or ""), re.MULTILINE)
        return json.dumps({"steps": [{"keep": key} for key in keys]})
    if phase == "verify":
        return json.dumps(_make_verdict(prompt, verdict))
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


def _make_verdict(prompt: str, rule: VerdictEntry) -> dict[str, Any]:
    """Return a verdict: all criteria but those in `unmet` are met; the quote is the first added line."""
    unmet = rule.unmet
    quote = _find_quote(prompt)
    entries = []
    for line in (read_block("criteria", prompt) or "").splitlines():
        key = json.loads(line)["key"]
        missed = unmet == "all" or key in unmet or quote is None
        entries.append({"key": key, "met": not missed, "evidence": rule.evidence if missed else quote})
    action = rule.action or ("PROCEED" if all(entry["met"] for entry in entries) else "RETRY")
    advice = {"request": rule.request, "caveats": rule.caveats}
    return {"criteria": entries, "reasoning": "As the script says.", "action": action, **advice}


def _find_quote(prompt: str) -> str | None:
    added = re.search(r"^\+(?!\+\+)(.*\S.*)$", (read_block("diff", prompt) or ""), re.MULTILINE)
    return added[1].strip() if added else None


Act = tuple[str, ...]
"""The name of an act, and its fields."""

_IDENTITY = ("-c", "user.name=Scripted agent", "-c", "user.email=scripted@localhost")


def pick_entry(entries: Sequence[ScriptedEntry], job: Job) -> ScriptedEntry | None:
    """Return the first entry that matches this launch."""
    facts = {"task": "1", "attempt": "1", "phase": "execute", **job.labels}
    tests = {selector: equals(facts[selector]) for selector in ("task", "attempt", "phase")}
    return Deck(entries).pick(tests)


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
    if entry.orphan:
        yield ("orphan",)
    guess = {"input_tokens": prompt // 4, "output_tokens": len(text) // 4, "cost_usd": 0.0}
    named = {name: value for name, value in asdict(entry.usage).items() if value is not None}
    yield _line(type="usage", **guess | named)
    if entry.limit is not None:
        yield "print", fill(entry.limit, names) + "\n"
        return
    if entry.hang:
        yield ("hang",)
    name, line = _line(type="result", ok=entry.exit_code == 0, text=text)
    if entry.truncate:
        yield name, line[:-3]
    elif not entry.no_result:
        yield name, line


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
    if entry.output_bytes:
        yield "noise", str(entry.output_bytes)


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


def _tool(name: str, **values: Any) -> Act:
    return _line(type="tool", name=name, input=values)


def _line(**line: Any) -> tuple[str, str]:
    return "print", json.dumps(line) + "\n"
