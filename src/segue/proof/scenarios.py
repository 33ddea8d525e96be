"""Run black-box scenarios and compare what comes out with what is expected."""

from __future__ import annotations

import json
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from segue.domain.proof import CheckResult, CheckState
from segue.domain.scenario import Scenario
from segue.domain.text import cut_tail, cut_text
from segue.proof.runners import Ended
from segue.system.programs import find

_SCRIPT = Path(__file__).parent / "runners/hooks/request_child.py"
_PATIENCE = 30.0
"""Seconds for a program to listen, and to answer."""
_SHOWN = 2000


TryOut = Callable[[Sequence[str], str, Path | None], Awaitable[Ended]]
"""Runs a command on a tree, sealed; with a script, Python runs the script with these arguments."""


class Seen(msgspec.Struct, frozen=True):
    """What came out of a scenario."""

    failure: str = ""
    """Why nothing came out."""
    status: int | None = None
    """The exit code, or the status of the answer."""
    body: str = ""
    """The output, or the body of the answer."""
    log: str = ""
    """What else was printed."""


async def run_scenario(try_out: TryOut, scenario: Scenario, base: str | None, head: str) -> CheckResult:
    """Try a scenario on the head and, if it passes there, on the base, where it should fail.

    With None as the base, that is not asked.
    """
    seen = await _try(try_out, scenario, head)
    wrong = compare(scenario, seen)
    name = scenario.command
    code = seen.status if scenario.run is not None else None
    if wrong:
        reason = f"Expected {'; '.join(one for one, _ in wrong)}. Got {'; '.join(two for _, two in wrong)}."
        output = "\n".join(
            part for part in (cut_tail(seen.body, _SHOWN), cut_tail(seen.log, _SHOWN)) if part.strip()
        )
        return CheckResult(name, code, output, CheckState.FAILED, reason, failing=(name,), scenario=True)
    proved = base is not None and bool(compare(scenario, await _try(try_out, scenario, base)))
    idle = base is not None and not proved
    return CheckResult(
        name,
        code,
        cut_tail(seen.body, _SHOWN),
        CheckState.PASSED,
        proved=(name,) if proved else (),
        idle=(name,) if idle else (),
        scenario=True,
    )


async def _try(try_out: TryOut, scenario: Scenario, tree: str) -> Seen:
    if scenario.run is not None:
        ended = await try_out(scenario.run, tree, None)
        failure = "it took too long" if ended.exit_code is None else ""
        return Seen(failure, ended.exit_code, ended.out, ended.err)
    assert scenario.request is not None
    request = msgspec.to_builtins(scenario.request)
    given = {**request, "start": list(scenario.start or ()), "patience": _PATIENCE}
    ended = await try_out((_python(), json.dumps(given)), tree, _SCRIPT)
    try:
        return msgspec.json.decode(ended.out.encode(), type=Seen)
    except msgspec.DecodeError:
        said = cut_tail(ended.err.strip(), _SHOWN) or f"exit code {ended.exit_code}"
        return Seen(f"the request could not be sent: {said}")


def _python() -> str:
    """Return the Python that sends requests: a packaged Segue cannot run scripts itself."""
    found = find("python3")
    return found if found and getattr(sys, "frozen", False) else sys.executable


def compare(scenario: Scenario, seen: Seen) -> list[tuple[str, str]]:
    """Return what differs, as pairs of what was expected and what came; empty: the scenario passes."""
    is_command = scenario.run is not None
    if seen.failure:
        return [("an answer" if not is_command else "an end", seen.failure)]
    word, usual, wanted = (
        ("exit code", 0, scenario.exit_code) if is_command else ("status", 200, scenario.status)
    )
    wanted = usual if wanted is None else wanted
    wrong = []
    if seen.status != wanted:
        wrong.append((f"{word} {wanted}", f"{word} {seen.status}"))
    if scenario.stdout is not None and seen.body.strip() != scenario.stdout.strip():
        wrong.append((f"the output {_quote(scenario.stdout)}", _quote(seen.body)))
    missing = [text for text in scenario.contains if text not in seen.body]
    if missing:
        wrong.append((" and ".join(map(_quote, missing)), _quote(seen.body)))
    if scenario.json is not None and not _matches(scenario.json, _parse(seen.body)):
        wrong.append((f"the JSON {json.dumps(scenario.json, ensure_ascii=False)}", _quote(seen.body)))
    return wrong


def _quote(text: str) -> str:
    shown = cut_text(text.strip(), 300)
    return f"`{shown}`" if shown else "nothing"


def _parse(body: str) -> Any:
    try:
        return json.loads(body)
    except ValueError:
        return None


def _matches(wanted: Any, found: Any) -> bool:
    """Return whether the keys that are named have their values; everything else must be equal."""
    if isinstance(wanted, Mapping):
        return isinstance(found, Mapping) and all(
            key in found and _matches(value, found[key]) for key, value in wanted.items()
        )
    if isinstance(wanted, list):
        return isinstance(found, list) and len(wanted) == len(found) and all(map(_matches, wanted, found))
    return type(wanted) is type(found) and bool(wanted == found)
