"""What the next launch finds: places that the user opened."""

from __future__ import annotations

from tests.slow.escapes.escape import Escape
from tests.slow.escapes.scene import Scene

TRUE = "checks = [['true']]"


def make_opened(scene: Scene) -> None:
    """Make the places that the user opens."""
    (scene.home / ".cache/tool/notes").mkdir(parents=True)
    scene.commit(**{"fixtures/one.txt": "x"})


LATER = (
    Escape(
        "opened for reading, leads to keys",
        "link('fixtures', HOME / '.ssh')",
        later="take(*(HOME / '.ssh').glob('*'), *Path('fixtures').glob('*'))",
        prepare=make_opened,
        settings=f"sandbox.read = ['fixtures']\n{TRUE}",
        named="fixtures.*not followed",
    ),
    Escape(
        "opened for writing, leads to the user's files",
        "link('fixtures', HOME / 'notes')",
        later="(HOME / 'notes/kept.txt').write_text('mine')",
        prepare=make_opened,
        settings=f"sandbox.write = ['fixtures']\n{TRUE}",
    ),
)
