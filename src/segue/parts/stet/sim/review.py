"""How the stand-in for stet reviews: hunk by hunk, with lines for people or events for programs."""

from __future__ import annotations

import json
import sys
import time
from typing import Any

from segue.parts.stet.sim.call import Hunk, StetCall, StetFailure, find_problems, make_placeholder, split_diff

URL = "http://localhost:11434"
STRICTNESS = {"strict": (0.6, 0.7), "default": (0.8, 0.9), "lenient": (0.9, 0.95)}
"""The least confidence that a finding needs, and one about maintainability."""


def ask_model(call: StetCall) -> None:
    """Fail as the model would, where the script asks for that."""
    if "--dry-run" in call.flags:
        return
    if call.script.get_fault("llm_down", call.command):
        ask = f"Ollama unreachable at {URL}. Is the server running? For local: ollama serve."
        why = f'Get "{URL}/api/tags": dial tcp 127.0.0.1:11434: connect: connection refused'
        raise StetFailure(ask, "Details: Ollama server unreachable.", why, code=2)
    if call.script.get_fault("bad_request", call.command):
        raise StetFailure(f"LLM bad request at {URL}. Check the model and the context size.", code=2)


def review_hunks(call: StetCall, hunks: list[Hunk], session: dict[str, Any]) -> list[dict[str, Any]]:
    """Review hunk by hunk, and say so on stderr, or as events."""
    if not hunks:
        show_progress(call, "Nothing to review.")
        _event(call, type="progress", msg="Nothing to review.")
        _event(call, type="done")
        return []
    if call.script.get_fault("parse_failure", call.command):
        why = "review: parse failed (after retry): invalid character 'I' looking for beginning of value"
        raise StetFailure(f"Review failed for {hunks[0].file}.", f"Details: {why}")
    while call.script.get_fault("hang", call.command):
        time.sleep(60)
    _event(call, type="progress", msg=f"{len(hunks)} hunks to review")
    found = []
    for number, hunk in enumerate(hunks, 1):
        words = f"Reviewing hunk {number}/{len(hunks)}: {hunk.file}"
        _event(call, type="progress", msg=words)
        if "--dry-run" in call.flags:
            batch = [make_placeholder(hunk, call.root)]
        else:
            show_progress(call, words)
            batch = [
                entry
                for entry in find_problems(hunk, call.script, call.root)
                if _is_sure(call, session, entry)
            ]
        for entry in batch:
            _event(call, type="finding", data=entry)
        found += batch
    _event(call, type="done")
    return found


def _is_sure(call: StetCall, session: dict[str, Any], entry: dict[str, Any]) -> bool:
    """Return whether a finding has the confidence that the strictness asks for."""
    given = call.flags.get("--strictness") or session.get("strictness") or "default"
    least, about_upkeep = STRICTNESS[given.strip().lower().removesuffix("+")]
    return bool(entry["confidence"] >= (about_upkeep if entry["category"] == "maintainability" else least))


def show_progress(call: StetCall, line: str) -> None:
    """Print a line for people on stderr."""
    if not call.json and not call.stream and "-q" not in call.flags and "--quiet" not in call.flags:
        complain(line)


def find_hunks(call: StetCall, base: str, head: str) -> list[Hunk]:
    """Return what differs between two commits."""
    options = ("--no-color", "--no-ext-diff", "--no-renames", "--unified=3")
    return split_diff(call.git("-c", "core.quotePath=false", "diff", *options, base, head))


def _event(call: StetCall, **fields: Any) -> None:
    """Print an event, if they are asked for."""
    if call.stream:
        print_line(go_json(dict(sorted(fields.items()))))


def go_json(value: Any) -> str:
    """Encode JSON as Go does: on one line, safe inside HTML."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")


def print_line(line: str) -> None:
    """Print a line on stdout."""
    sys.stdout.write(line + "\n")


def complain(line: str) -> None:
    """Print a line on stderr."""
    sys.stderr.write(line + "\n")
