"""The scripted agent's answers when it is asked for a plan, a verdict or a search and its script has none.

They are made from the prompt alone: marker lines look like `<<<diff CODE>>>`.
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


def make_answer(phase: str, prompt: str, verdict: dict[str, Any] | None) -> str | None:
    """Return the answer for a phase; None if the phase asks for no particular form."""
    if phase == "outline":
        steps = [_make_step(place, title, kind) for place, (title, kind) in enumerate(_STEPS, 1)]
        return json.dumps({"steps": steps})
    if phase == "replan":
        keys = re.findall(r"^(\d+): ", _read_block("rest", prompt), re.MULTILINE)
        return json.dumps({"steps": [{"keep": key} for key in keys]})
    if phase == "verify":
        return json.dumps(_make_verdict(prompt, verdict or {}))
    if phase == "search":
        return f"The documentation says how: https://docs.example.com/{len(_read_block('question', prompt))}"
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
    for line in _read_block("criteria", prompt).splitlines():
        key = json.loads(line)["key"]
        missed = unmet == "all" or key in unmet or quote is None
        evidence = rule.get("evidence", "nothing shows it") if missed else quote
        entries.append({"key": key, "met": not missed, "evidence": evidence})
    action = rule.get("action", "RETRY" if any(not entry["met"] for entry in entries) else "PROCEED")
    advice = {"request": rule.get("request", ""), "caveats": rule.get("caveats", [])}
    return {"criteria": entries, "reasoning": "As the script says.", "action": action, **advice}


def _find_quote(prompt: str) -> str | None:
    added = re.search(r"^\+(?!\+\+)(.*\S.*)$", _read_block("diff", prompt), re.MULTILINE)
    return added[1].strip() if added else None


def _read_block(label: str, prompt: str) -> str:
    marked = rf"^<<<{label} (\S+)>>>\n(.*?)\n<<<end of {label} \1>>>$"
    found = re.search(marked, prompt, re.DOTALL | re.MULTILINE)
    return found[2] if found else ""
