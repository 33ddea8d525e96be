"""What the scripted agent answers where a phase asks for a form: plans, verdicts and findings."""

from __future__ import annotations

import json
import re
from typing import Any, Literal

from segue.domain.options import Options


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
    """Return a verdict: all criteria but those in `unmet` are met; the quote is an added line."""
    unmet = rule.unmet
    quote = find_quote(read_block("diff", prompt) or "")
    entries = []
    for line in (read_block("criteria", prompt) or "").splitlines():
        key = json.loads(line)["key"]
        missed = unmet == "all" or key in unmet or quote is None
        entries.append({"key": key, "met": not missed, "evidence": rule.evidence if missed else quote})
    action = rule.action or ("PROCEED" if all(entry["met"] for entry in entries) else "RETRY")
    advice = {"request": rule.request, "caveats": rule.caveats}
    return {"criteria": entries, "reasoning": "As the script says.", "action": action, **advice}


def find_quote(diff: str) -> str | None:
    """Return what a judge can quote of a diff: the longest added line that is no comment."""
    added = [line.strip() for line in re.findall(r"^\+(?!\+\+ )(.*\S.*)$", diff, re.MULTILINE)]
    code = [line for line in added if not line.startswith(("#", "//", "/*", "*", "--", "<!--", '"""'))]
    return max(code or added, key=len, default=None)


def read_block(label: str, prompt: str) -> str | None:
    """Return what a prompt has between the lines `<<<label CODE>>>` and `<<<end of label CODE>>>`."""
    fenced = rf"^<<<{label} (\S+)>>>\n(.*?)\n<<<end of {label} \1>>>$"
    found = re.search(fenced, prompt, re.DOTALL | re.MULTILINE)
    return found[2] if found else None
