"""What the scripted agent answers when it is asked for a plan, a verdict or a search and has no other script.

The answers are made from the prompt alone: marker lines look like `<<<diff CODE>>>`.
"""

from __future__ import annotations

import json
import re
from typing import Any

_STEPS = [
    ("Set the project up", "setup"),
    ("Write the main part", "backend"),
    ("Test it", "testing"),
]


def answer(phase: str, prompt: str, verdict: dict[str, Any] | None) -> str | None:
    """What to answer in a phase; None when the phase wants no particular form."""
    if phase == "outline":
        steps = [_step(place, title, kind) for place, (title, kind) in enumerate(_STEPS, 1)]
        return json.dumps({"steps": steps})
    if phase == "replan":
        keys = re.findall(r"^(\d+): ", _block("rest", prompt), re.MULTILINE)
        return json.dumps({"steps": [{"keep": key} for key in keys]})
    if phase == "verify":
        return json.dumps(_verdict(prompt, verdict or {}))
    if phase == "search":
        return f"The documentation says how: https://docs.example.com/{len(_block('question', prompt))}"
    return None


def _step(place: int, title: str, kind: str) -> dict[str, Any]:
    return {
        "id": str(place),
        "title": title,
        "description": f"{title}, as the goal asks.",
        "build_phase": kind,
        "acceptance": [f"{title}: a file shows it"],
        "depends_on": [str(place - 1)] if place > 1 else [],
    }


def _verdict(prompt: str, rule: dict[str, Any]) -> dict[str, Any]:
    """Every criterion is met but those in `unmet`; the quote is the first line that was added."""
    unmet = rule.get("unmet", [])
    quote = _quote(prompt)
    entries = []
    for line in _block("criteria", prompt).splitlines():
        key = json.loads(line)["key"]
        missed = unmet == "all" or key in unmet or quote is None
        evidence = rule.get("evidence", "nothing shows it") if missed else quote
        entries.append({"key": key, "met": not missed, "evidence": evidence})
    action = rule.get("action", "RETRY" if any(not entry["met"] for entry in entries) else "PROCEED")
    told = {"request": rule.get("request", ""), "caveats": rule.get("caveats", [])}
    return {"criteria": entries, "reasoning": "As the script says.", "action": action, **told}


def _quote(prompt: str) -> str | None:
    added = re.search(r"^\+(?!\+\+)(.*\S.*)$", _block("diff", prompt), re.MULTILINE)
    return added[1].strip() if added else None


def _block(label: str, prompt: str) -> str:
    marked = rf"^<<<{label} (\S+)>>>\n(.*?)\n<<<end of {label} \1>>>$"
    found = re.search(marked, prompt, re.DOTALL | re.MULTILINE)
    return found[2] if found else ""
