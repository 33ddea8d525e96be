"""Append a canary to JavaScript and TypeScript tests: a test that must fail.

It is part of the file, so it shares the runner, the imports and the assertions with the file's own tests.
"""

from __future__ import annotations

import re

from segue.proof.runners.runner import Stage
from segue.system.beneath import append_below, read_below

ENDINGS = (".js", ".jsx", ".cjs", ".mjs", ".ts", ".tsx", ".mts", ".cts")
_NO_TESTS = re.compile(r"(?:.*/)?(?:__fixtures__|fixtures?|testdata|__snapshots__|__mocks__|node_modules)/.*")
_HAS_TESTS = re.compile(r"\b(?:test|it)\s*(?:\.\w+\s*)*[(<`]")
_NODE_TEST = re.compile(r"""['"]node:test['"]""")
_NAMES = re.compile(r"""(?:import\s*\{([^}]*)\}\s*from|\{([^}]*)\}\s*=\s*require\()\s*['"](?:node:)?assert""")

_ASSERT = {
    "ok": "(false)",
    "equal": "(1, 2)",
    "strictEqual": "(1, 2)",
    "deepEqual": "([1], [2])",
    "deepStrictEqual": "([1], [2])",
    "notEqual": "(1, 1)",
    "notStrictEqual": "(1, 1)",
    "throws": "(() => {})",
    "match": "('a', /b/)",
    "isTrue": "(false)",
    "isFalse": "(true)",
}
"""Calls that must throw, by the method of `assert` that a test file uses."""
_EXPECT = {
    "toBe": "(1).toBe(2)",
    "toEqual": "([1]).toEqual([2])",
    "toStrictEqual": "([1]).toStrictEqual([2])",
    "toMatchObject": "({ a: 1 }).toMatchObject({ a: 2 })",
    "toBeTruthy": "(0).toBeTruthy()",
    "toBeFalsy": "(1).toBeFalsy()",
    "toBeNull": "(1).toBeNull()",
    "toBeUndefined": "(1).toBeUndefined()",
    "toBeDefined": "(undefined).toBeDefined()",
    "toContain": "([1]).toContain(2)",
    "toHaveLength": "([1]).toHaveLength(2)",
    "toMatch": "('a').toMatch(/b/)",
    "toThrow": "(() => {}).toThrow()",
    "toBeCloseTo": "(1).toBeCloseTo(2)",
    "toBeGreaterThan": "(1).toBeGreaterThan(2)",
    "toBeLessThan": "(2).toBeLessThan(1)",
    "equal": "(1).to.equal(2)",
    "eql": "([1]).to.eql([2])",
    "true": "(false).to.be.true",
    "false": "(true).to.be.false",
}


def place_canaries(stage: Stage) -> tuple[list[str], list[str]]:
    """Append a canary to each test file; return these files, and the files that use node:test."""
    placed, scripts = [], []
    for path in stage.tests:
        if not path.endswith(ENDINGS) or path.endswith(".d.ts") or _NO_TESTS.fullmatch(path):
            continue
        file = stage.tree / path
        if file.is_symlink() or not file.is_file():
            continue
        text = read_below(stage.tree, file).decode("utf-8", "surrogateescape")
        if _NODE_TEST.search(text):
            scripts.append(str(stage.root / path))
        if _HAS_TESTS.search(text):
            append_below(stage.tree, file, canary(text, stage.token))
            placed.append(path)
    return placed, scripts


def canary(text: str, token: str) -> str:
    """Return a test that must fail: it passes if an assertion that the file uses has lost its voice."""
    used = [
        f"() => assert.{name}{call}"
        for name, call in _ASSERT.items()
        if re.search(rf"\bassert\.{name}\(", text)
    ]
    used += [f"() => {name}{_ASSERT[name]}" for name in _imported(text) if name in _ASSERT]
    if re.search(r"\bassert\(", text):
        used.append("() => assert(false)")
    if re.search(r"\bexpect\(", text):
        used += [f"() => expect{call}" for name, call in _EXPECT.items() if re.search(rf"\.{name}\b", text)]
    tries = ", ".join(used)
    body = (
        f"for (const must of [{tries}]) {{ let quiet = true; try {{ must(); }} catch {{ quiet = false; }}"
        f' if (quiet) return; }} throw new Error("{token}");'
    )
    find = 'typeof test === "function" ? test : typeof it === "function" ? it : null'
    # In one line, because the comment turns off TypeScript for the next line alone.
    added = f'(() => {{ const add = {find}; if (add) add("{token}", () => {{ {body} }}); }})();'
    return f"\n;// @ts-ignore\n{added}\n"


def _imported(text: str) -> list[str]:
    found = []
    for match in _NAMES.finditer(text):
        found += [name.strip() for name in (match[1] or match[2]).split(",")]
    return found
