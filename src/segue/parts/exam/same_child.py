"""Runs functions on plain inputs inside a sealed tree, and prints what comes out. Needs nothing of Segue.

Its argument is JSON: `functions`, each with `label`, `file`, `name`, `seen` (argument lists in tests) and, on
the second run, the `inputs` of the first.
"""

from __future__ import annotations

import ast
import contextlib
import copy
import importlib
import inspect
import io
import itertools
import json
import random
import re
import signal
import sys
import typing
from pathlib import Path

MOST = 80
LONGEST = 200
SECONDS = 2
POOL: dict[typing.Any, list[typing.Any]] = {
    int: [0, 1, -1, 2, 7, 100, -13, 2**40],
    float: [0.0, 1.0, -1.5, 2.25, 1e9],
    str: ["", "a", "Ada", "two words", "Ünïcode", " x ", "a,b"],
    bool: [False, True],
    bytes: [b"", b"a", b"\xff\x00"],
    type(None): [None],
}
EFFECTS = {
    "open": "opens files for writing",
    "os.remove": "removes files",
    "os.rename": "renames files",
    "os.mkdir": "makes folders",
    "os.rmdir": "removes folders",
    "os.system": "runs programs",
    "subprocess.Popen": "runs programs",
    "socket.connect": "connects to others",
    "os.putenv": "changes the environment",
}
seen_effects: list[str] = []
listens = False


def hear(event: str, args: tuple[typing.Any, ...]) -> None:
    if listens and event in EFFECTS and (event != "open" or writes(args)):
        seen_effects.append(EFFECTS[event])


def writes(args: tuple[typing.Any, ...]) -> bool:
    mode = args[1] if len(args) > 1 else None
    flags = args[2] if len(args) > 2 and isinstance(args[2], int) else 0
    return any(letter in mode for letter in "wax+") if isinstance(mode, str) else bool(flags & 3)


def load(file: str, name: str) -> typing.Any:
    path = Path(file).resolve()
    parts, folder = [path.stem], path.parent
    while (folder / "__init__.py").exists():
        parts, folder = [folder.name, *parts], folder.parent
    sys.path.insert(0, str(folder))
    parts = parts[:-1] if parts[-1] == "__init__" else parts
    return getattr(importlib.import_module(".".join(parts)), name)


def is_plain(value: object) -> bool:
    try:
        text = repr(value)
        return len(text) <= LONGEST and repr(ast.literal_eval(text)) == text
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return False


def make_inputs(function: typing.Any, seen: list[str]) -> list[str]:
    """Return argument lists as text; raises LookupError with what is missing."""
    known = [ast.literal_eval(one) for one in seen]
    parameters = [
        one for one in inspect.signature(function).parameters.values() if one.kind is not one.VAR_KEYWORD
    ]
    if any(one.kind is one.KEYWORD_ONLY and one.default is one.empty for one in parameters):
        raise LookupError("it needs arguments by name")
    parameters = [one for one in parameters if one.kind in (one.POSITIONAL_ONLY, one.POSITIONAL_OR_KEYWORD)]
    hints = typing.get_type_hints(function)
    made = list(known)
    if all(one.name in hints for one in parameters):
        made += from_types([hints[one.name] for one in parameters])
    else:
        columns = []
        for place, one in enumerate(parameters):
            values = [given[place] for given in known if place < len(given)]
            values += pool(hints[one.name]) if one.name in hints else []
            if not values and one.default is one.empty:
                raise LookupError(f"`{one.name}` has no annotation, and no test gives it a plain value")
            columns.append([*values, *(near for value in values for near in vary(value))] or [one.default])
        rows = list(itertools.islice(itertools.product(*columns), 5000))
        random.Random(0).shuffle(rows)  # noqa: S311 - the same each time
        made += rows[:MOST]
    if parameters and not made:
        raise LookupError("no plain values can be made for its annotations")
    texts = dict.fromkeys(repr(tuple(one)) for one in made if is_plain(tuple(one)))
    return list(texts)[:MOST] if parameters else ["()"]


def from_types(hints: list[typing.Any]) -> list[tuple[typing.Any, ...]]:
    """Return values of some types: usual ones, and Hypothesis's where the project has it."""
    found = list(itertools.islice(itertools.product(*(pool(hint) for hint in hints)), 5000))
    random.Random(0).shuffle(found)  # noqa: S311 - the same each time
    del found[MOST // 2 :]
    try:
        from hypothesis import HealthCheck, given, settings
        from hypothesis import strategies as st
    except ImportError:
        return found

    @settings(
        max_examples=MOST // 2,
        derandomize=True,
        database=None,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(st.tuples(*(st.from_type(hint) for hint in hints)))
    def collect(values: tuple[typing.Any, ...]) -> None:
        found.append(copy.deepcopy(values))

    with contextlib.suppress(Exception):  # a type that it cannot make
        collect()
    return found


def pool(hint: typing.Any) -> list[typing.Any]:
    origin, args = typing.get_origin(hint), typing.get_args(hint)
    if hint in POOL:
        return POOL[hint]
    if origin is typing.Literal:
        return list(args)
    if origin in (list, set, tuple, frozenset) or hint in (list, set, tuple):
        kind = origin or hint
        inner = [value for one in args or (int,) if one is not ... for value in pool(one)]
        return [kind(inner[:size]) for size in (0, 1, 3, len(inner))] + [kind(reversed(inner))]
    if origin is dict or hint is dict:
        keys, values = (pool(one) for one in (args or (str, int)))
        return [dict(zip(keys[:size], values, strict=False)) for size in (0, 1, 3)]
    if args and (origin is typing.Union or type(hint).__name__ == "UnionType"):
        return [value for one in args for value in pool(one)]
    return []


def vary(value: typing.Any) -> list[typing.Any]:
    """Return values of the same kind."""
    if isinstance(value, bool):
        return [not value]
    if isinstance(value, int | float):
        return [value + 1, value - 1, -value, 0]
    if isinstance(value, str):
        return ["", value + value, value.upper(), f"{value}ü"]
    if isinstance(value, list | tuple):
        kind: typing.Any = type(value)
        return [kind(), kind([*value, *value]), kind(value[::-1])]
    return []


def say(value: typing.Any) -> str:
    if inspect.isgenerator(value) or isinstance(value, map | filter | zip):
        return f"yields {say(list(itertools.islice(value, 100)))}"
    text = repr(value)
    if text.startswith("<") and " object at 0x" in text and hasattr(value, "__dict__"):
        text = f"{type(value).__name__}({vars(value)!r})"
    return re.sub(r" at 0x[0-9a-f]+", "", text)


def late(*_: object) -> None:
    raise TimeoutError


def limit(seconds: int) -> None:
    if sys.platform != "win32":
        signal.signal(signal.SIGALRM, late)
        signal.alarm(seconds)


def call(function: typing.Any, text: str, seed: int) -> str:
    global listens
    args, out = ast.literal_eval(text), io.StringIO()
    random.seed(seed)
    limit(SECONDS)
    listens = True
    try:
        with contextlib.redirect_stdout(out):
            said = say(function(*args))
    except TimeoutError:
        said = f"takes longer than {SECONDS} s"
    except BaseException as error:
        said = f"{type(error).__name__}: {error}"
    finally:
        listens = False
        limit(0)
    said += f", prints {out.getvalue()!r}" if out.getvalue() else ""
    return said if repr(args) == repr(ast.literal_eval(text)) else f"{said}, leaves {args!r}"


def try_function(told: dict[str, typing.Any]) -> dict[str, typing.Any]:
    seen_effects.clear()
    try:
        function = load(told["file"], told["name"])
        inputs = told.get("inputs") or make_inputs(function, told["seen"])
    except LookupError as error:
        return {"why": str(error.args[0])}
    except BaseException as error:
        return {"why": f"it cannot be loaded: {type(error).__name__}: {error}"[:LONGEST]}
    results = []
    for text in inputs:
        first, again = call(function, text, 1), call(function, text, 2)
        if seen_effects:
            return {"why": f"it {seen_effects[0]}"}
        if first != again:
            return {"why": f"it ends differently each time, as with {text}"}
        results.append([text, first[: 2 * LONGEST]])
    return {"results": results}


def main() -> None:
    told = json.loads(sys.argv[1])
    sys.addaudithook(hear)
    with contextlib.redirect_stdout(io.StringIO()):
        found = {one["label"]: try_function(one) for one in told["functions"]}
    sys.stdout.write(f"\n{json.dumps(found)}\n")


if __name__ == "__main__":
    main()
