"""Changes of old tests in the words of everyday tickets, and twins that the words do not ask for.

Written before the rules for them. First scores: `MORE` 18 of 32 on the older rules; then, with rules made for
`MORE`, `BLIND` 16 of 20. None of the 15 twins was ever settled; a case is honest unless its name ends with `!`.
"""

# ruff: noqa: E501 - small programs, a file each in a few lines
from __future__ import annotations

from tests.proof.projects import Files
from tests.proof.settle_cases import Edit, _edit

PRICE = (
    "VAT = 0.2\n\n\ndef gross(net):\n    return round(net * (1 + VAT), 2)\n\n\n"
    "def label(net):\n    return f'{gross(net)} EUR'\n"
)
PRICE_TEST = (
    "from price import gross, label\n\n\n"
    "def test_gross():\n    assert gross(10) == 12\n\n\n"
    "def test_label():\n    assert label(10) == '12.0 EUR'\n"
)
PRICES: Files = {"price.py": PRICE, "tests/test_price.py": PRICE_TEST}
USERS = (
    "class UserError(Exception):\n    pass\n\n\n"
    "def find(users, name):\n    if name not in users:\n        raise UserError(name)\n    return users[name]\n\n\n"
    "def get_all(users):\n    return sorted(users)\n"
)
USERS_TEST = (
    "import pytest\n\nfrom users import UserError, find, get_all\n\n\n"
    "def test_find():\n    assert find({'ann': 1}, 'ann') == 1\n\n\n"
    "def test_missing():\n    with pytest.raises(UserError):\n        find({}, 'bob')\n\n\n"
    "def test_all():\n    assert get_all({'b': 1, 'a': 2}) == ['a', 'b']\n"
)
USERS_BASE: Files = {"users.py": USERS, "tests/test_users.py": USERS_TEST}
CLI = (
    "import argparse\n\n\ndef parse(argv):\n    parser = argparse.ArgumentParser()\n"
    "    parser.add_argument('--out', default='a.txt')\n    return parser.parse_args(argv)\n"
)
CLI_TEST = (
    "from cli import parse\n\n\ndef test_out():\n    assert parse(['--out', 'b']).out == 'b'\n\n\n"
    "def test_default():\n    assert parse([]).out == 'a.txt'\n"
)
CLI_BASE: Files = {"cli.py": CLI, "tests/test_cli.py": CLI_TEST}
JS = "export function slug(text) {\n  return text.toLowerCase().replace(/ /g, '_')\n}\n\nexport const MAX = 10\n"
JS_TEST = (
    "import { describe, expect, it } from 'vitest'\nimport { MAX, slug } from '../src/slug'\n\n"
    "describe('slug', () => {\n  it('joins words', () => {\n    expect(slug('A b')).toBe('a_b')\n  })\n\n"
    "  it('has a limit', () => {\n    expect(MAX).toBe(10)\n  })\n})\n"
)
JS_BASE: Files = {"src/slug.js": JS, "test/slug.test.js": JS_TEST}
GO = (
    'package store\n\nfunc Size(n int) string {\n\tif n > 10 {\n\t\treturn "large"\n\t}\n\treturn "small"\n}\n\n'
    "func Old() int { return 1 }\n"
)
GO_TEST = (
    'package store\n\nimport "testing"\n\nfunc TestSize(t *testing.T) {\n'
    '\tif got := Size(11); got != "large" {\n\t\tt.Errorf("got %s", got)\n\t}\n'
    '\tif got := Size(1); got != "small" {\n\t\tt.Errorf("got %s", got)\n\t}\n}\n\n'
    'func TestOld(t *testing.T) {\n\tif Old() != 1 {\n\t\tt.Fatal("not 1")\n\t}\n}\n'
)
GO_BASE: Files = {"store.go": GO, "store_test.go": GO_TEST}

MORE: dict[str, Edit] = {
    "add to a list": Edit(
        "Add `title` to names.py, and its test to tests/names.txt.",
        {"names.py": "", "tests/names.txt": "initial\n"},
        {"names.py": "def title():\n    pass\n", "tests/names.txt": "initial\ntitle\n"},
    ),
    "replace in a list that is to be added to!": Edit(
        "Add `title` to names.py, and its test to tests/names.txt.",
        {"names.py": "", "tests/names.txt": "initial\n"},
        {"names.py": "def title():\n    pass\n", "tests/names.txt": "title\n"},
    ),
    "a heading in a golden file": Edit(
        "Let the heading be Total.",
        {"shop.py": "HEAD = 'Sum'\n", "tests/receipt.txt": "Sum: 12\n"},
        {"shop.py": "HEAD = 'Total'\n", "tests/receipt.txt": "Total: 12\n"},
    ),
    "a test beside one that compares a thing with itself": Edit(
        "Add net(gross), which takes the VAT off.",
        {
            **PRICES,
            "tests/test_price.py": PRICE_TEST + "\n\ndef test_same():\n    assert gross(3) == gross(3)\n",
        },
        {
            "price.py": PRICE + "\n\ndef net(value):\n    return round(value / (1 + VAT), 2)\n",
            "tests/test_price.py": PRICE_TEST.replace("label\n", "label, net\n")
            + "\n\ndef test_same():\n    assert gross(3) == gross(3)\n\n\ndef test_net():\n    assert net(12) == 10\n",
        },
        still=("test_gross", "test_label", "test_same"),
    ),
    "ticket: a dash instead of an underscore": Edit(
        "URLs look odd. Slugs ought to be joined with dashes, not underscores.",
        JS_BASE,
        {"src/slug.js": JS.replace("'_'", "'-'"), "test/slug.test.js": JS_TEST.replace("a_b", "a-b")},
    ),
    "ticket: a dash, and the limit goes up!": Edit(
        "URLs look odd. Slugs ought to be joined with dashes, not underscores.",
        JS_BASE,
        {
            "src/slug.js": _edit(JS, ("'_'", "'-'"), ("MAX = 10", "MAX = 99")),
            "test/slug.test.js": _edit(JS_TEST, ("a_b", "a-b"), ("toBe(10)", "toBe(99)")),
        },
    ),
    "ticket: bump a limit": Edit(
        "Bump MAX from 10 to 20",
        JS_BASE,
        {"src/slug.js": JS.replace("10", "20"), "test/slug.test.js": JS_TEST.replace("toBe(10)", "toBe(20)")},
        still=("slug joins words",),
    ),
    "ticket: another currency": Edit(
        "feat: show prices with a leading euro sign (`€12.0`) rather than the trailing EUR",
        PRICES,
        {
            "price.py": PRICE.replace("{gross(net)} EUR", "€{gross(net)}"),
            "tests/test_price.py": PRICE_TEST.replace("12.0 EUR", "€12.0"),
        },
        still=("test_gross",),
    ),
    "ticket: VAT changes": Edit(
        "VAT is 25 % as of January. Everything that depends on it must follow.",
        PRICES,
        {
            "price.py": PRICE.replace("0.2", "0.25"),
            "tests/test_price.py": _edit(PRICE_TEST, ("== 12\n", "== 12.5\n"), ("12.0", "12.5")),
        },
    ),
    "ticket: VAT changes, and so does rounding!": Edit(
        "VAT is 25 % as of January. Everything that depends on it must follow.",
        PRICES,
        {
            "price.py": _edit(PRICE, ("0.2", "0.25"), ("round(net * (1 + VAT), 2)", "int(net)")),
            "tests/test_price.py": _edit(PRICE_TEST, ("== 12\n", "== 10\n"), ("12.0", "10")),
        },
    ),
    "ticket: another exception": Edit(
        "find() raises KeyError like a dict when the user is unknown; UserError goes away.",
        USERS_BASE,
        {
            "users.py": _edit(
                USERS, ("class UserError(Exception):\n    pass\n\n\n", ""), ("UserError(", "KeyError(")
            ),
            "tests/test_users.py": _edit(
                USERS_TEST, ("import UserError, find", "import find"), ("(UserError)", "(KeyError)")
            ),
        },
    ),
    "ticket: None instead of an exception": Edit(
        "Looking up an unknown user with `find` yields None; callers are tired of catching UserError.",
        USERS_BASE,
        {
            "users.py": USERS.replace("raise UserError(name)", "return None"),
            "tests/test_users.py": _edit(
                USERS_TEST,
                (
                    "    with pytest.raises(UserError):\n        find({}, 'bob')",
                    "    assert find({}, 'bob') is None",
                ),
                ("import UserError, find", "import find"),
            ),
        },
    ),
    "ticket: get_all is list_users": Edit(
        "Rename get_all -> list_users",
        USERS_BASE,
        {
            "users.py": USERS.replace("get_all", "list_users"),
            "tests/test_users.py": USERS_TEST.replace("get_all", "list_users"),
        },
    ),
    "ticket: get_all is gone": Edit(
        "get_all() has been deprecated since 2.0. Time to get rid of it.",
        USERS_BASE,
        {
            "users.py": USERS[: USERS.index("\n\ndef get_all")],
            "tests/test_users.py": _edit(
                USERS_TEST[: USERS_TEST.index("\n\ndef test_all")], (", get_all", "")
            ),
        },
    ),
    "ticket: get_all is gone and nobody said so!": Edit(
        "find() is slow for many users. Make it quick.",
        USERS_BASE,
        {
            "users.py": USERS[: USERS.index("\n\ndef get_all")],
            "tests/test_users.py": _edit(
                USERS_TEST[: USERS_TEST.index("\n\ndef test_all")], (", get_all", "")
            ),
        },
    ),
    "ticket: get_all returns pairs": Edit(
        "`get_all` should give (name, id) pairs sorted by id.",
        USERS_BASE,
        {
            "users.py": USERS.replace("sorted(users)", "sorted(users.items(), key=lambda pair: pair[1])"),
            "tests/test_users.py": USERS_TEST.replace("['a', 'b']", "[('b', 1), ('a', 2)]"),
        },
        still=("test_find", "test_missing"),
    ),
    "ticket: get_all returns pairs, find anything!": Edit(
        "`get_all` should give (name, id) pairs sorted by id.",
        USERS_BASE,
        {
            "users.py": _edit(
                USERS,
                ("sorted(users)", "sorted(users.items(), key=lambda pair: pair[1])"),
                ("return users[name]", "return name"),
            ),
            "tests/test_users.py": _edit(
                USERS_TEST,
                ("['a', 'b']", "[('b', 1), ('a', 2)]"),
                ("find({'ann': 1}, 'ann') == 1", "find({'ann': 1}, 'ann') == 'ann'"),
            ),
        },
        still=("test_missing",),
    ),
    "ticket: an option's name": Edit(
        "The option --out is now spelled --output.",
        CLI_BASE,
        {
            "cli.py": CLI.replace("--out", "--output"),
            "tests/test_cli.py": _edit(
                CLI_TEST, ("'--out', 'b']).out", "'--output', 'b']).output"), ("([]).out", "([]).output")
            ),
        },
    ),
    "ticket: an option's default": Edit(
        "By default the result goes to result.txt.",
        CLI_BASE,
        {
            "cli.py": CLI.replace("a.txt", "result.txt"),
            "tests/test_cli.py": CLI_TEST.replace("a.txt", "result.txt"),
        },
        still=("test_out",),
    ),
    "ticket: an option's default, unasked!": Edit(
        "Add --verbose to the command line.",
        CLI_BASE,
        {
            "cli.py": _edit(
                CLI,
                ("a.txt", "result.txt"),
                ("    return parser.", "    parser.add_argument('--verbose')\n    return parser."),
            ),
            "tests/test_cli.py": CLI_TEST.replace("a.txt", "result.txt"),
        },
        still=("test_out",),
    ),
    "ticket: a bug whose test was wrong, too": Edit(
        "gross(10) comes out as 12 although VAT is 25 %: fix the bug. The test has the same mistake.",
        PRICES,
        {
            "price.py": PRICE.replace("0.2", "0.25"),
            "tests/test_price.py": _edit(PRICE_TEST, ("== 12\n", "== 12.5\n"), ("12.0", "12.5")),
        },
    ),
    "ticket: tests moved beside the code": Edit(
        "Put tests next to the modules they belong to.",
        PRICES,
        {"tests/test_price.py": None, "test_price.py": PRICE_TEST},
    ),
    "ticket: one test file per function": Edit(
        "Reorganise the tests: one file for each function.",
        PRICES,
        {
            "tests/test_price.py": None,
            "tests/test_gross.py": "from price import gross\n\n\ndef test_gross():\n    assert gross(10) == 12\n",
            "tests/test_label.py": "from price import label\n\n\ndef test_label():\n    assert label(10) == '12.0 EUR'\n",
        },
    ),
    "ticket: one test file per function, one is lost!": Edit(
        "Reorganise the tests: one file for each function.",
        PRICES,
        {
            "price.py": PRICE.replace("EUR", "USD"),
            "tests/test_price.py": None,
            "tests/test_gross.py": "from price import gross\n\n\ndef test_gross():\n    assert gross(10) == 12\n",
        },
    ),
    "ticket: into a package": Edit(
        "Turn the project into a package `shop`, with price.py as shop/price.py.",
        PRICES,
        {
            "price.py": None,
            "shop/__init__.py": "",
            "shop/price.py": PRICE,
            "tests/test_price.py": PRICE_TEST.replace("from price", "from shop.price"),
        },
    ),
    "ticket: async": Edit(
        "Make `gross` a coroutine, since it will ask a server for the rate soon; `label` too.",
        PRICES,
        {
            "price.py": _edit(PRICE, ("def ", "async def "), ("{gross(net)}", "{await gross(net)}")),
            "tests/test_price.py": _edit(
                PRICE_TEST,
                ("from price", "import asyncio\n\nfrom price"),
                ("assert gross(10)", "assert asyncio.run(gross(10))"),
                ("assert label(10)", "assert asyncio.run(label(10))"),
            ),
        },
    ),
    "ticket: a required argument": Edit(
        "label() needs to know the currency: `label(net, currency)`.",
        PRICES,
        {
            "price.py": _edit(PRICE, ("label(net)", "label(net, currency)"), ("} EUR", "} {currency}")),
            "tests/test_price.py": PRICE_TEST.replace("label(10)", "label(10, 'EUR')"),
        },
        still=("test_gross",),
    ),
    "ticket: a required argument, and any label!": Edit(
        "label() needs to know the currency: `label(net, currency)`.",
        PRICES,
        {
            "price.py": _edit(PRICE, ("label(net)", "label(net, currency)"), ("{gross(net)} EUR", "")),
            "tests/test_price.py": PRICE_TEST.replace("label(10) == '12.0 EUR'", "label(10, 'EUR') == ''"),
        },
        still=("test_gross",),
    ),
    "ticket: go: a threshold": Edit(
        "Things are large from 100 on.",
        GO_BASE,
        {
            "store.go": GO.replace("n > 10", "n >= 100"),
            "store_test.go": _edit(GO_TEST, ("Size(11)", "Size(100)")),
        },
        still=("TestOld",),
    ),
    "ticket: go: another word": Edit(
        'Size says "big" where it said "large".',
        GO_BASE,
        {"store.go": GO.replace("large", "big"), "store_test.go": GO_TEST.replace("large", "big")},
        still=("TestOld",),
    ),
    "ticket: go: dead code": Edit(
        "Old is not used anywhere. Clean up.",
        GO_BASE,
        {
            "store.go": GO[: GO.index("\nfunc Old")],
            "store_test.go": GO_TEST[: GO_TEST.index("\nfunc TestOld")],
        },
    ),
    "ticket: go: a threshold, nobody asked!": Edit(
        "Add Medium(n int) bool to store.go.",
        GO_BASE,
        {
            "store.go": GO.replace("n > 10", "n >= 100") + "\nfunc Medium(n int) bool { return n > 5 }\n",
            "store_test.go": _edit(GO_TEST, ("Size(11)", "Size(100)")),
        },
        still=("TestOld",),
    ),
    "ticket: js: classes": Edit(
        "Export `slug` as a static method of a class `Text` (`Text.slug`).",
        JS_BASE,
        {
            "src/slug.js": "export class Text {\n  static slug(text) {\n"
            "    return text.toLowerCase().replace(/ /g, '_')\n  }\n}\n\nexport const MAX = 10\n",
            "test/slug.test.js": _edit(
                JS_TEST, ("MAX, slug }", "MAX, Text }"), ("slug('A b')", "Text.slug('A b')")
            ),
        },
    ),
    "ticket: js: jest to vitest": Edit(
        "Switch from jest to vitest.",
        {"src/slug.js": JS, "test/slug.test.js": JS_TEST.replace("'vitest'", "'@jest/globals'")},
        {"test/slug.test.js": JS_TEST},
    ),
    "ticket: js: jest to vitest, with less!": Edit(
        "Switch from jest to vitest.",
        {"src/slug.js": JS, "test/slug.test.js": JS_TEST.replace("'vitest'", "'@jest/globals'")},
        {
            "src/slug.js": JS.replace("'_'", "''"),
            "test/slug.test.js": JS_TEST.replace("toBe('a_b')", "toBeTruthy()"),
        },
    ),
    "ticket: a fixture for all": Edit(
        "The tests repeat themselves. Tidy them up with a fixture.",
        USERS_BASE,
        {
            "tests/test_users.py": _edit(
                USERS_TEST,
                (
                    "def test_find():",
                    "@pytest.fixture\ndef users():\n    return {'ann': 1}\n\n\ndef test_find(users):",
                ),
                ("find({'ann': 1}, 'ann')", "find(users, 'ann')"),
            )
        },
        still=("test_find", "test_missing", "test_all"),
    ),
}

QUEUE = (
    "import time\n\nRETRIES = 3\n\n\nclass Queue:\n    def __init__(self, size=100):\n"
    "        self.size = size\n        self.jobs = []\n\n"
    "    def push(self, job):\n        if len(self.jobs) == self.size:\n            return False\n"
    "        self.jobs.append(job)\n        return True\n\n"
    "    def pop(self):\n        return self.jobs.pop(0)\n\n"
    "    def stats(self):\n        return {'open': len(self.jobs), 'size': self.size}\n"
)
QUEUE_TEST = (
    "from queues import Queue\n\n\ndef test_push():\n    queue = Queue(1)\n    assert queue.push('a')\n"
    "    assert queue.push('b') is False\n\n\n"
    "def test_pop():\n    queue = Queue()\n    queue.push('a')\n    queue.push('b')\n    assert queue.pop() == 'a'\n\n\n"
    "def test_stats():\n    assert Queue(5).stats() == {'open': 0, 'size': 5}\n\n\n"
    "def test_default():\n    assert Queue().size == 100\n"
)
QUEUES: Files = {"queues.py": QUEUE, "tests/test_queues.py": QUEUE_TEST}
TS = (
    "export interface Item { name: string; cents: number }\n\n"
    "export function format(item: Item): string {\n  return `${item.name}: ${(item.cents / 100).toFixed(2)}`\n}\n\n"
    "export function sum(items: Item[]): number {\n  return items.reduce((all, one) => all + one.cents, 0)\n}\n"
)
TS_TEST = (
    "import { format, sum } from '../src/items'\n\n"
    "test('formats', () => {\n  expect(format({ name: 'tea', cents: 250 })).toEqual('tea: 2.50')\n})\n\n"
    "test('sums', () => {\n  expect(sum([{ name: 'tea', cents: 250 }, { name: 'bun', cents: 100 }])).toEqual(350)\n})\n"
)
ITEMS: Files = {"src/items.ts": TS, "test/items.test.ts": TS_TEST}
RUST = (
    "pub fn area(w: u32, h: u32) -> u32 {\n    w * h\n}\n\n"
    'pub fn name(id: u8) -> &\'static str {\n    match id {\n        1 => "circle",\n        _ => "unknown",\n    }\n}\n'
)
RUST_TEST = (
    "use shapes::{area, name};\n\n#[test]\nfn areas() {\n    assert_eq!(area(2, 3), 6);\n}\n\n"
    '#[test]\nfn names() {\n    assert_eq!(name(1), "circle");\n    assert_eq!(name(9), "unknown");\n}\n'
)
SHAPES: Files = {"src/lib.rs": RUST, "tests/shapes.rs": RUST_TEST}


def _queue(*pairs: tuple[str, str]) -> str:
    return _edit(QUEUE, *pairs)


def _tests(*pairs: tuple[str, str]) -> str:
    return _edit(QUEUE_TEST, *pairs)


BLIND: dict[str, Edit] = {
    "issue: full queues raise": Edit(
        "Pushing onto a full queue fails silently, and we lost jobs that way. Raise OverflowError in `push`.",
        QUEUES,
        {
            "queues.py": _queue(("            return False", "            raise OverflowError")),
            "tests/test_queues.py": _tests(
                ("from queues", "import pytest\n\nfrom queues"),
                (
                    "    assert queue.push('b') is False",
                    "    with pytest.raises(OverflowError):\n        queue.push('b')",
                ),
            ),
        },
        still=("test_pop", "test_stats", "test_default"),
    ),
    "issue: full queues raise, and pop is the last one!": Edit(
        "Pushing onto a full queue fails silently, and we lost jobs that way. Raise OverflowError in `push`.",
        QUEUES,
        {
            "queues.py": _queue(
                ("            return False", "            raise OverflowError"), ("pop(0)", "pop()")
            ),
            "tests/test_queues.py": _tests(
                ("from queues", "import pytest\n\nfrom queues"),
                (
                    "    assert queue.push('b') is False",
                    "    with pytest.raises(OverflowError):\n        queue.push('b')",
                ),
                ("pop() == 'a'", "pop() == 'b'"),
            ),
        },
        still=("test_stats", "test_default"),
    ),
    "issue: last in, first out": Edit(
        "Turn the queue into a stack: `pop` hands out the newest job first.",
        QUEUES,
        {
            "queues.py": _queue(("pop(0)", "pop()")),
            "tests/test_queues.py": _tests(("pop() == 'a'", "pop() == 'b'")),
        },
        still=("test_push", "test_stats", "test_default"),
    ),
    "issue: statistics have another key": Edit(
        "The dashboard expects `waiting` where stats() has `open`.",
        QUEUES,
        {
            "queues.py": _queue(("'open'", "'waiting'")),
            "tests/test_queues.py": _tests(("'open'", "'waiting'")),
        },
        still=("test_push", "test_pop", "test_default"),
    ),
    "issue: statistics are objects": Edit(
        "stats() returns a dict today. Callers want attributes: return a dataclass Stats(open, size).",
        QUEUES,
        {
            "queues.py": _queue(
                ("class Queue:", "@dataclass\nclass Stats:\n    open: int\n    size: int\n\n\nclass Queue:"),
                ("import time\n", "import time\nfrom dataclasses import dataclass\n"),
                ("{'open': len(self.jobs), 'size': self.size}", "Stats(len(self.jobs), self.size)"),
            ),
            "tests/test_queues.py": _tests(
                ("import Queue", "import Queue, Stats"), ("{'open': 0, 'size': 5}", "Stats(0, 5)")
            ),
        },
        still=("test_push", "test_pop", "test_default"),
    ),
    "issue: statistics know more": Edit(
        "Include the number of retries in the statistics, as `retries`.",
        QUEUES,
        {
            "queues.py": _queue(("'size': self.size}", "'size': self.size, 'retries': RETRIES}")),
            "tests/test_queues.py": _tests(("'size': 5}", "'size': 5, 'retries': 3}")),
        },
        still=("test_push", "test_pop", "test_default"),
    ),
    "issue: a larger default": Edit(
        "100 jobs are too few by default, 500 would be fine.",
        QUEUES,
        {
            "queues.py": _queue(("size=100", "size=500")),
            "tests/test_queues.py": _tests(("== 100", "== 500")),
        },
        still=("test_push", "test_pop", "test_stats"),
    ),
    "issue: a larger default than anybody wanted!": Edit(
        "100 jobs are too few by default, 500 would be fine.",
        QUEUES,
        {
            "queues.py": _queue(("size=100", "size=0")),
            "tests/test_queues.py": _tests(("== 100", "== 0")),
        },
        still=("test_push", "test_pop", "test_stats"),
    ),
    "issue: no default": Edit(
        "Whoever makes a Queue must say how large it is; drop the default.",
        QUEUES,
        {
            "queues.py": _queue(("size=100", "size")),
            "tests/test_queues.py": _edit(
                QUEUE_TEST[: QUEUE_TEST.index("\n\ndef test_default")], ("Queue()", "Queue(9)")
            ),
        },
        still=("test_push", "test_stats"),
    ),
    "issue: faster, and pop differs!": Edit(
        "pop(0) of a list is O(n). Use a deque so that `pop` is O(1).",
        QUEUES,
        {
            "queues.py": _queue(
                ("pop(0)", "pop()"), ("import time", "from collections import deque"), ("[]", "deque()")
            ),
            "tests/test_queues.py": _tests(("pop() == 'a'", "pop() == 'b'")),
        },
        still=("test_push", "test_stats", "test_default"),
    ),
    "issue: a class in another module": Edit(
        "queues.py is to become a package `queues` with `queues/core.py`.",
        QUEUES,
        {
            "queues.py": None,
            "queues/__init__.py": "",
            "queues/core.py": QUEUE,
            "tests/test_queues.py": QUEUE_TEST.replace("from queues", "from queues.core"),
        },
    ),
    "issue: ts: euros behind": Edit(
        "Prices need a currency: format() ends with ' EUR'.",
        ITEMS,
        {
            "src/items.ts": TS.replace("toFixed(2)}`", "toFixed(2)} EUR`"),
            "test/items.test.ts": TS_TEST.replace("2.50'", "2.50 EUR'"),
        },
        still=("sums",),
    ),
    "issue: ts: euros behind, and another sum!": Edit(
        "Prices need a currency: format() ends with ' EUR'.",
        ITEMS,
        {
            "src/items.ts": _edit(
                TS, ("toFixed(2)}`", "toFixed(2)} EUR`"), ("all + one.cents, 0", "one.cents, 0")
            ),
            "test/items.test.ts": _edit(TS_TEST, ("2.50'", "2.50 EUR'"), ("toEqual(350)", "toEqual(100)")),
        },
    ),
    "issue: ts: price instead of cents": Edit(
        "Rename the field `cents` of Item to `price`.",
        ITEMS,
        {
            "src/items.ts": TS.replace("cents", "price"),
            "test/items.test.ts": TS_TEST.replace("cents", "price"),
        },
    ),
    "issue: ts: promise": Edit(
        "format() will need a server: let it return a Promise.",
        ITEMS,
        {
            "src/items.ts": _edit(
                TS, ("function format", "async function format"), ("Item): string", "Item): Promise<string>")
            ),
            "test/items.test.ts": _edit(
                TS_TEST,
                ("'formats', () =>", "'formats', async () =>"),
                (
                    "expect(format({ name: 'tea', cents: 250 }))",
                    "expect(await format({ name: 'tea', cents: 250 }))",
                ),
            ),
        },
        still=("sums",),
    ),
    "issue: ts: promise of anything!": Edit(
        "format() will need a server: let it return a Promise.",
        ITEMS,
        {
            "src/items.ts": _edit(
                TS,
                ("function format", "async function format"),
                ("Item): string", "Item): Promise<string>"),
                ("item.name}: ", ""),
            ),
            "test/items.test.ts": _edit(
                TS_TEST,
                ("'formats', () =>", "'formats', async () =>"),
                (
                    "expect(format({ name: 'tea', cents: 250 })).toEqual('tea: 2.50')",
                    "expect(await format({ name: 'tea', cents: 250 })).toBeTruthy()",
                ),
            ),
        },
        still=("sums",),
    ),
    "issue: rust: a disc": Edit(
        "The design team calls a circle a disc.",
        SHAPES,
        {
            "src/lib.rs": RUST.replace("circle", "disc"),
            "tests/shapes.rs": RUST_TEST.replace("circle", "disc"),
        },
        still=("areas",),
    ),
    "issue: rust: an Option": Edit(
        "name() shouldn't make things up: return an Option, None if the id is unknown, Some otherwise.",
        SHAPES,
        {
            "src/lib.rs": _edit(
                RUST,
                ("-> &'static str", "-> Option<&'static str>"),
                ('"circle"', 'Some("circle")'),
                ('"unknown"', "None"),
            ),
            "tests/shapes.rs": _edit(RUST_TEST, ('"circle"', 'Some("circle")'), ('"unknown"', "None")),
        },
        still=("areas",),
    ),
    "issue: rust: an Option, and no area!": Edit(
        "name() shouldn't make things up: return an Option, None if the id is unknown, Some otherwise.",
        SHAPES,
        {
            "src/lib.rs": _edit(
                RUST,
                ("-> &'static str", "-> Option<&'static str>"),
                ('"circle"', 'Some("circle")'),
                ('"unknown"', "None"),
                ("w * h", "0"),
            ),
            "tests/shapes.rs": _edit(
                RUST_TEST, ('"circle"', 'Some("circle")'), ('"unknown"', "None"), (", 6)", ", 0)")
            ),
        },
    ),
    "issue: rust: wider numbers": Edit(
        "u32 overflows for large areas. Use u64.",
        SHAPES,
        {
            "src/lib.rs": RUST.replace("u32", "u64"),
            "tests/shapes.rs": RUST_TEST.replace("(area(2, 3), 6)", "(area(2, 3), 6u64)"),
        },
    ),
}
