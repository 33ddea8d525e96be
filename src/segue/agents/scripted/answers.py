"""What the scripted agent answers where a phase asks for a particular form."""

from __future__ import annotations

import json
import re
from typing import Any

from segue.agents.scripted.entries import VerdictEntry
from segue.sim.script import read_block

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
