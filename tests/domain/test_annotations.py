"""What differs in annotations only runs as before."""

from __future__ import annotations

import pytest

from segue.domain.annotations import differ_in_types

GEO = (
    "def near(points, p, limit=3):\n    found = []\n"
    "    return [q for q in points if q - p <= limit] + found\n"
)
TYPED = (
    "from collections.abc import Iterable\n\nPoint = int\n\n\n"
    "def near(points: Iterable[Point], p: Point, limit: int = 3) -> list[Point]:\n"
    "    found: list[Point] = []\n    return [q for q in points if q - p <= limit] + found\n"
)
CLASS = "class Box:\n    def size(self):\n        return 1\n"
SAME = {
    "hints, an import and an alias": (GEO, TYPED),
    "a method": (CLASS, CLASS.replace("(self)", "(self) -> int")),
    "an import for checkers": (
        GEO,
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from a import P\n"
        + GEO.replace("p,", "p: 'P',"),
    ),
}
OTHER = {
    "another default": (GEO, TYPED.replace("= 3", "= 4")),
    "a name that code uses": (GEO, f"limit = 5\n{TYPED}".replace("<= limit", "<= limit + 0")),
    "a new function": (GEO, f"{TYPED}\n\ndef far() -> int:\n    return 1\n"),
    "a field of a data class": (CLASS, CLASS.replace("Box:\n", "Box:\n    width: int\n")),
    "what a decorator reads": (f"@get\n{GEO}", f"@get\n{GEO.replace('p,', 'p: int,')}"),
    "an import of what may do something": (GEO, f"import effects\n{GEO.replace('p,', 'p: effects.P,')}"),
    "what only checkers do not see": (
        GEO,
        f"if not TYPE_CHECKING:\n    import os\n    os.remove('x')\n{GEO}",
    ),
    "a call": (GEO, f"P = run('x')\n{GEO.replace('p,', 'p: P,')}"),
    "a call beside an import for checkers": (GEO, f"if TYPE_CHECKING:\n    import os\n    run()\n{GEO}"),
    "another import of the same name": (f"from a import f\n{GEO}", f"from b import f\n{GEO}"),
}


@pytest.mark.parametrize("name", SAME)
def test_annotations_do_nothing(name: str) -> None:
    assert differ_in_types("geo.py", *SAME[name])


@pytest.mark.parametrize("name", OTHER)
def test_anything_else_may(name: str) -> None:
    assert not differ_in_types("geo.py", *OTHER[name])
