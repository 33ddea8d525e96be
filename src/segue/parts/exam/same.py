"""Old code against new: where a task asks for the same behaviour, both are run on the same inputs."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from segue.domain.proof import AgainstOld
from segue.domain.same import keeps_behaviour
from segue.parts.exam.pairs import FunctionPair, find_calls, find_pairs
from segue.proof.runners import Ended
from segue.proof.seal import Sealer
from segue.proof.setup import CheckSetupFailed
from segue.system.programs import find_inside

_SCRIPT = Path(__file__).with_name("same_child.py")
_MOST = 10
"""So many functions are compared."""
_MOST_SEEN = 20
_SHOWN = 3
"""So many inputs are shown of a function that differs."""
_LARGEST = 100_000
"""The system takes no longer argument."""


async def compare(
    sealer: Sealer, words: str, base: str, tree: str, commands: Sequence[Sequence[str]]
) -> AgainstOld | None:
    """Return what old and new code do with the same inputs; None where the task asks for something new.

    Inputs are generated from annotations, with Hypothesis where the project has it, and from the plain values
    with which tests call a function.
    """
    if not keeps_behaviour(words):
        return None
    files, tests = await sealer.read_change(base, tree, ".py")
    change = find_pairs(files, words)
    pairs, left_out = change.pairs[:_MOST], list(change.left_out)
    left_out += [f"{pair.label}: too many functions changed" for pair in change.pairs[_MOST:]]
    if not pairs:
        return AgainstOld(not_compared=tuple(left_out)) if left_out else None
    python = _find_python(commands)
    seen = find_calls(tests, {pair.old[1] for pair in pairs})
    told = [_tell(pair, pair.old, seen=seen[pair.old[1]][:_MOST_SEEN]) for pair in pairs]
    before = await _run(sealer, python, base, told)
    told = [
        _tell(pair, pair.new, seen=(), inputs=[text for text, _ in before[pair.label]["results"]])
        for pair in pairs
        if "results" in before.get(pair.label, {})
    ]
    after = await _run(sealer, python, tree, told) if told else {}
    return _conclude(pairs, before, after, left_out)


def _tell(pair: FunctionPair, side: tuple[str, str], **more: Any) -> dict[str, Any]:
    return {"label": pair.label, "file": side[0], "name": side[1], **more}


async def _run(
    sealer: Sealer, python: str, tree: str, functions: list[dict[str, Any]]
) -> dict[str, dict[str, Any]]:
    """Run functions on a tree; what cannot be run is said for each of them."""
    text = json.dumps({"functions": functions})
    if len(text) > _LARGEST:
        return {one["label"]: {"why": "its inputs are too large"} for one in functions}
    try:
        ended = await sealer.run_script((python, text), tree, _SCRIPT)
        found: dict[str, dict[str, Any]] = json.loads(ended.out.strip().rpartition("\n")[2])
    except CheckSetupFailed as error:
        return {one["label"]: {"why": error.message} for one in functions}
    except ValueError:
        return {one["label"]: {"why": _why_not(ended)} for one in functions}
    return found


def _why_not(ended: Ended) -> str:
    return "it took too long" if ended.exit_code is None else f"it ended with exit code {ended.exit_code}"


def _conclude(
    pairs: Sequence[FunctionPair],
    before: dict[str, dict[str, Any]],
    after: dict[str, dict[str, Any]],
    left_out: list[str],
) -> AgainstOld:
    functions, differences, inputs = list[str](), list[str](), 0
    for pair in pairs:
        old, new = before.get(pair.label, {}), after.get(pair.label, {})
        if "results" not in old:
            left_out.append(f"{pair.label}: {old.get('why', 'nothing is known of it')}")
        elif "results" not in new:
            functions.append(pair.label)
            differences.append(f"{pair.label} could be run before; now {new.get('why', 'nothing is known')}")
        else:
            functions.append(pair.label)
            inputs += len(old["results"])
            differs = [
                f"{pair.old[1]}{text}: {was} before, {now} now"
                for (text, was), (_, now) in zip(old["results"], new["results"], strict=False)
                if was != now
            ]
            differences += differs[:_SHOWN]
            if len(differs) > _SHOWN:
                differences.append(f"{pair.label}: {len(differs) - _SHOWN} more inputs")
    return AgainstOld(
        functions=tuple(functions),
        inputs=inputs,
        differences=tuple(differences),
        not_compared=tuple(left_out),
    )


def _find_python(commands: Sequence[Sequence[str]]) -> str:
    """Return the Python that the checks use: named by them, or beside the program that they start."""
    for argv in commands:
        if Path(argv[0]).name.startswith("python"):
            return argv[0]
        if "/" in argv[0]:
            return str(Path(argv[0]).with_name("python"))
        place = find_inside(argv[0])
        beside = Path(place).with_name("python3") if place else None
        if beside is not None and beside.is_file():
            return str(beside)
    return "python3"
