"""Play a judge: a criterion is met if a regular expression is found in the diff that the prompt shows."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any

JudgeRule = dict[str, str | bool]
"""Criterion key → the regular expression that must be found, or the answer; `default` for others."""

_BLOCK = r"<<<{label} (?P<code>[0-9a-f]{{16,}})>>>\n(?P<text>.*?)\n<<<end of {label} (?P=code)>>>"
_NO_QUOTE = "(the evidence shows nothing to quote)"


def judge(rule: JudgeRule, users: Sequence[str]) -> dict[str, Any] | None:
    """Return the verdict on the newest message that asks for one; None if there is none."""
    for text in reversed(users):
        criteria = _block("criteria", text)
        if criteria is not None:
            shown = _block("diff", text) or ""
            entries = [_entry(rule, key, shown, _block("checks", text) or "") for key in _keys(criteria)]
            answer = {"criteria": entries, "reasoning": "The diff was searched for regular expressions."}
            return {**answer, **_choose_action(entries)} if '"action"' in text else answer
    return None


def _choose_action(entries: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return what should follow, for a judge that is asked for it."""
    action = "PROCEED" if all(entry["met"] for entry in entries) else "RETRY"
    return {"action": action, "request": "", "caveats": []}


def _entry(rule: JudgeRule, key: str, diff: str, checks: str) -> dict[str, Any]:
    wanted = rule.get(key, rule.get("default", True))
    if isinstance(wanted, bool):
        said = _quote_any(f"{diff}\n{checks}") if wanted else "The script says that this is not met."
        return {"key": key, "met": wanted, "evidence": said}
    found = re.search(wanted, diff, re.MULTILINE)
    if found is None:
        return {"key": key, "met": False, "evidence": f"Nothing in the diff looks like {wanted}"}
    start = diff.rfind("\n", 0, found.start()) + 1
    return {"key": key, "met": True, "evidence": diff[start : max(found.end(), start + 1)].partition("\n")[0]}


def _quote_any(text: str) -> str:
    """Return a line that can be quoted: an added one, else any."""
    lines = [line for line in text.splitlines() if len(line.strip(" +-")) >= 3]
    added = [line[1:] for line in lines if line.startswith("+") and not line.startswith("+++")]
    return next(iter([*added, *lines]), _NO_QUOTE)


def _keys(criteria: str) -> list[str]:
    keys = []
    for line in criteria.splitlines():
        try:
            found = json.loads(line)
        except ValueError:
            continue
        if isinstance(found, dict) and "key" in found:
            keys.append(str(found["key"]))
    return keys


def _block(label: str, text: str) -> str | None:
    found = re.search(_BLOCK.format(label=label), text, re.DOTALL)
    return found["text"] if found else None
