"""A stand-in for stet that behaves like the real one, without a model: its findings come from a script.

It is a program of its own: `python command.py start HEAD~1 --json`. The environment variable SEGUE_SIM_STET
names the script, JSON or TOML; without one it finds nothing.

    [[findings]]            # one for each added line in baseline..HEAD that matches
    pattern = "eval\\\\("
    unless = "checked"      # ... and does not match this
    severity = "error"
    category = "security"
    message = "eval on input"
    suggestion = "Use ast.literal_eval."

    [faults]                # true, or a list of the commands that fail
    llm_down = ["run"]

Faults: llm_down, bad_request (exit code 2), parse_failure (exit code 1 in the middle of a review), hang,
corrupt_session, no_json_flag (an early build: JSON always; "human": text always), unknown_output, no_model.

With --dry-run no model is asked: each hunk has one placeholder.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from segue.parts.stet.sim.call import Hunk, StetCall, StetFailure, StetScript
from segue.parts.stet.sim.review import (
    STRICTNESS,
    ask_model,
    complain,
    find_hunks,
    go_json,
    print_line,
    review_hunks,
    show_progress,
)

REASONS = ("false_positive", "already_correct", "wrong_suggestion", "out_of_scope")
COMMANDS = ("start", "run", "rerun", "finish", "cleanup", "status", "list", "dismiss", "doctor")
NO_SESSION = "no active session; run stet start first"
NO_SESSION_TO_SHOW = "No active session. Run 'stet start' to begin a review."
MODEL = "qwen3-coder:30b"
VERSION = "dev"
_BOOLEAN = {"--dry-run", "--quiet", "-q", "--json", "--stream", "--nitpicky", "--verify", "--trace"}
_BOOLEAN |= {"--search-replace"}
_VALUED = {
    "--output",
    "--strictness",
    "--context",
    "--num-ctx",
    "--timeout",
    "--provider",
    "--openai-base-url",
    "--rag-symbol-max-definitions",
    "--rag-symbol-max-tokens",
}
_FLAGS: dict[str, set[str]] = {
    "start": _BOOLEAN | {"--allow-dirty"},
    "run": _BOOLEAN,
    "rerun": _BOOLEAN | {"--replace"},
    "status": {"-i", "--ids"},
}


def main(argv: list[str]) -> int:
    """Run one command and return the exit code."""
    try:
        _dispatch(argv)
    except StetFailure as failure:
        complain(str(failure))
        return failure.code
    return 0


def _dispatch(argv: list[str]) -> None:
    if argv in (["--version"], ["-v"]):
        print_line(f"stet version {VERSION}")
        return
    if not argv or argv[0] not in COMMANDS:
        raise StetFailure(
            f'unknown command "{argv[0]}" for "stet"' if argv else "Local-first code review tool"
        )
    script = StetScript.load()
    words, flags = _parse(argv[0], argv[1:], script)
    _check_output(flags)
    call = StetCall(argv[0], words, flags, script, Path.cwd())
    root = call.git("rev-parse", "--show-toplevel", check=False)
    if not root and argv[0] != "doctor":
        raise StetFailure("This directory is not inside a Git repository.", "Details: exit status 128")
    _check_strictness(flags)
    _HANDLERS[argv[0]](call._replace(root=Path(root)) if root else call)


def _parse(command: str, arguments: list[str], script: StetScript) -> tuple[list[str], dict[str, str]]:
    known = set(_FLAGS.get(command, ()))
    valued = _VALUED if "--json" in known else set()
    if script.get_fault("no_json_flag", command):
        known -= {"--json", "--stream"}
    words: list[str] = []
    flags: dict[str, str] = {}
    rest = iter(arguments)
    for argument in rest:
        name, equals, value = argument.partition("=")
        if not argument.startswith("-"):
            words.append(argument)
        elif name in valued:
            flags[name] = value if equals else next(rest, "")
        elif name in known:
            flags[name] = ""
        else:
            raise StetFailure(f"unknown flag: {name}")
    return words, flags


def _check_output(flags: dict[str, str]) -> None:
    output = "json" if "--json" in flags else flags.get("--output", "human")
    if output not in ("human", "json"):
        raise StetFailure("Invalid output format; use human or json.")
    if "--stream" in flags and output != "json":
        raise StetFailure("--stream requires --output=json or --json.")


def _check_strictness(flags: dict[str, str]) -> None:
    given = flags.get("--strictness", "")
    if given and given.strip().lower().removesuffix("+") not in STRICTNESS:
        known = "use strict, default, lenient, strict+, default+, or lenient+"
        raise StetFailure(f'invalid strictness "{given}": {known}')


def _start(call: StetCall) -> None:
    ref = call.words[0] if call.words else "HEAD"
    if call.git("status", "--porcelain"):
        if "--allow-dirty" not in call.flags:
            hint = f"Hint: Commit or stash your changes, then run 'stet start {ref}' again."
            raise StetFailure(hint, "working tree has uncommitted changes; commit or stash before starting")
        complain("Warning: proceeding with uncommitted changes; review scope may be unclear")
    hint = f"Hint: Run 'stet finish' to end the current review, then run 'stet start {ref}' again."
    with call.lock(hint, "finish or cleanup current review first"):
        baseline = call.git("rev-parse", "--verify", "--quiet", f"{ref}^{{commit}}", check=False)
        if not baseline:
            shallow = "If this is a shallow clone, fetch more history: git fetch --unshallow"
            details = "Details: Invalid ref or commit."
            raise StetFailure(f'Could not resolve baseline ref "{ref}".', details, shallow)
        _begin(call, ref, baseline)


def _begin(call: StetCall, ref: str, baseline: str) -> None:
    head = call.git("rev-parse", "HEAD")
    session: dict[str, Any] = {"dismissed_ids": [], "findings": []}
    session |= {"session_id": os.urandom(16).hex(), "baseline_ref": baseline, "last_reviewed_at": head}
    if call.flags.get("--strictness"):
        session["strictness"] = call.flags["--strictness"]
    if baseline == head:
        call.save(session)
        show_progress(call, "Nothing to review (baseline is HEAD).")
        if not call.stream:
            _print_findings(call)
        return
    ask_model(call)
    if not call.succeeds("merge-base", "--is-ancestor", baseline, "HEAD"):
        raise StetFailure("baseline ref is not an ancestor of HEAD")
    worktree = call.worktree(baseline)
    if worktree.exists():
        end = "to end the current review and remove the worktree"
        hint = f"Hint: Run 'stet finish' {end}, then run 'stet start {ref}' again."
        raise StetFailure(hint, "worktree already exists")
    call.git("worktree", "add", "--quiet", "--detach", str(worktree), baseline)
    show_progress(call, f"Worktree created at {worktree}")
    try:
        call.save({**session, "last_reviewed_at": ""})
        hunks = find_hunks(call, baseline, head)
        show_progress(call, f"{len(hunks)} hunks to review, 0 already approved")
        found = review_hunks(call, hunks, session)
    except StetFailure:
        call.git("worktree", "remove", "--force", str(worktree), check=False)
        raise
    call.save({**session, "findings": found})
    _print_findings(call)


def _run(call: StetCall) -> None:
    session = _session(call, NO_SESSION)
    full = call.command == "rerun"
    head = call.git("rev-parse", "HEAD")
    hunks = find_hunks(call, session["baseline_ref"], head)
    if not full and session["last_reviewed_at"]:
        seen = find_hunks(call, session["baseline_ref"], session["last_reviewed_at"])
        known = {hunk.meaning for hunk in seen}
        hunks = [hunk for hunk in hunks if hunk.meaning not in known]
    skipped = ""
    if not full:
        gone = [entry for entry in session["findings"] if entry["id"] in session["dismissed_ids"]]
        left = [hunk for hunk in hunks if not any(hunk.contains(entry) for entry in gone)]
        skipped = f", {len(hunks) - len(left)} skipped (dismissed)" if len(left) < len(hunks) else ""
        hunks = left
    show_progress(call, f"{len(hunks)} hunks to review{skipped}")
    if hunks:
        ask_model(call)
    found = review_hunks(call, hunks, session)
    if not hunks:
        call.save({**session, "last_reviewed_at": head})
        _print_findings(call)
        return
    if "--replace" in call.flags:
        session |= {"findings": [], "dismissed_ids": []}
        call.add_history({**session, "findings": found}, {"replace_findings": True}, head)
    else:
        _auto_dismiss(call, session, hunks, found, head)
    session["findings"] += found  # even if it is listed already: then it is there twice
    session["last_reviewed_at"] = head
    call.save(session)
    _print_findings(call)


def _auto_dismiss(
    call: StetCall, session: dict[str, Any], hunks: list[Hunk], found: list[dict[str, Any]], head: str
) -> None:
    """Dismiss old findings in hunks that were reviewed again and did not report them again."""
    again = {entry["id"] for entry in found}
    old = [entry for entry in session["findings"] if entry["id"] not in again]
    addressed = {entry["id"]: None for entry in old if any(hunk.contains(entry) for hunk in hunks)}
    new = [name for name in addressed if name not in session["dismissed_ids"]]
    session["dismissed_ids"] += new
    if addressed:
        reasons = [{"finding_id": name, "reason": "already_correct"} for name in addressed]
        call.add_history(session, {"dismissed_ids": list(addressed), "dismissals": reasons}, head)


def _finish(call: StetCall) -> None:
    session = _session(call, NO_SESSION)
    with call.lock("session already active"):
        worktree = call.worktree(session["baseline_ref"])
        if worktree.exists():
            call.git("worktree", "remove", str(worktree))
        head = call.git("rev-parse", "HEAD")
        finished = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        if session["findings"]:
            dismissed = {"dismissed_ids": session["dismissed_ids"]} if session["dismissed_ids"] else {}
            call.add_history(session, {**dismissed, "finished_at": finished})
        note = go_json(_describe_review(call, session, head, finished))
        try:
            call.git("notes", "--ref=stet", "add", "-f", "-m", note, head)
        except StetFailure as failure:
            raise StetFailure("Could not write Git note for this review.", f"Details: {failure}") from None
        (call.state / "session.json").unlink()


def _describe_review(call: StetCall, session: dict[str, Any], head: str, finished: str) -> dict[str, Any]:
    """Return what the note of a review says: which one, how large it was, and what it used."""
    hunks = find_hunks(call, session["baseline_ref"], head)
    lines = [line for hunk in hunks for line in hunk.raw]
    added, removed = ([line[1:] for line in lines if line[0] == sign] for sign in "+-")
    return {
        "session_id": session["session_id"],
        "baseline_sha": session["baseline_ref"],
        "head_sha": head,
        "findings_count": len(session["findings"]),
        "dismissals_count": len(session["dismissed_ids"]),
        "tool_version": VERSION,
        "finished_at": finished,
        "hunks_reviewed": len(hunks),
        "lines_added": len(added),
        "lines_removed": len(removed),
        "chars_added": sum(map(len, added)),
        "chars_deleted": sum(map(len, removed)),
        "chars_reviewed": sum(map(len, [*added, *removed])),
        "model": MODEL,
        "prompt_tokens": 0,
        "completion_tokens": 0,
        "eval_duration_ns": 0,
    }


def _cleanup(call: StetCall) -> None:
    session = call.load()
    current = call.worktree(session["baseline_ref"]) if session else None
    listed = call.git("worktree", "list", "--porcelain").splitlines()
    paths = [Path(line.removeprefix("worktree ")) for line in listed if line.startswith("worktree ")]
    orphans = [path for path in paths if path.name.startswith("stet-") and path != current]
    for path in orphans:
        call.git("worktree", "remove", "--force", str(path))
        complain(f"Removed worktree: {path}")
    if not orphans:
        complain("No orphan worktrees.")


def _status(call: StetCall) -> None:
    session = _session(call, NO_SESSION_TO_SHOW)
    print_line(f"baseline: {session['baseline_ref']}")
    print_line(f"last_reviewed_at: {session['last_reviewed_at']}")
    print_line(f"worktree: {call.worktree(session['baseline_ref'])}")
    print_line(f"findings: {len(session['findings'])}")
    print_line(f"dismissed: {len(session['dismissed_ids'])}")
    if session.get("strictness"):
        print_line(f"strictness: {session['strictness']}")
    if call.flags and _open(session):
        print_line("---")
        _list(call)


def _list(call: StetCall) -> None:
    for entry in _open(_session(call, NO_SESSION_TO_SHOW)):
        print_line(_human(entry))


def _dismiss(call: StetCall) -> None:
    if not call.words:
        raise StetFailure("dismiss requires a finding id (e.g. stet dismiss <id>)")
    prefix, reason = call.words[0].strip(), (call.words[1:] or [""])[0].strip().lower()
    if reason and reason not in REASONS:
        raise StetFailure(f"Invalid reason; use one of: {', '.join(REASONS)}.")
    session = _session(call, NO_SESSION)
    if len(prefix) < 4:
        raise StetFailure("finding id must be at least 4 characters")
    fitting = [entry["id"] for entry in session["findings"] if entry["id"].startswith(prefix.lower())]
    if not fitting:
        raise StetFailure(f'no finding with id "{prefix}"')
    if len(fitting) > 1:
        raise StetFailure(f'ambiguous id "{prefix}"; use more characters')
    if fitting[0] not in session["dismissed_ids"]:
        session["dismissed_ids"].append(fitting[0])
        call.save(session)
    reasons = {"dismissals": [{"finding_id": fitting[0], "reason": reason}]} if reason else {}
    call.add_history(session, {"dismissed_ids": fitting[:1], **reasons})


def _doctor(call: StetCall) -> None:
    ask_model(call)
    if call.script.get_fault("no_model", call.command):
        raise StetFailure(f'Model "{MODEL}" not found. Pull it with: ollama pull {MODEL}')
    print_line("Ollama OK")
    print_line(f"Model: {MODEL}")


def _session(call: StetCall, complaint: str) -> dict[str, Any]:
    session = call.load()
    if not session:
        raise StetFailure(complaint)
    return session


def _open(session: dict[str, Any]) -> list[dict[str, Any]]:
    return [entry for entry in session["findings"] if entry["id"] not in session["dismissed_ids"]]


def _print_findings(call: StetCall) -> None:
    if call.script.get_fault("unknown_output", call.command):
        print_line("All good, I think? <no summary>")
        return
    if call.stream:
        return
    found = _open(call.load())
    if call.json:
        print_line(go_json({"findings": found}))
        return
    for entry in found:
        print_line(_human(entry))
    print_line("1 finding." if len(found) == 1 else f"{len(found)} finding(s).")


def _human(entry: dict[str, Any]) -> str:
    place = f"{entry['file']}:{entry['line']}"
    return f"{entry['id'][:7]}  {place}  {entry['severity'].upper()}  {entry['message']}"


_HANDLERS: dict[str, Callable[[StetCall], None]] = {
    "start": _start,
    "run": _run,
    "rerun": _run,
    "finish": _finish,
    "cleanup": _cleanup,
    "status": _status,
    "list": _list,
    "dismiss": _dismiss,
    "doctor": _doctor,
}


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
