"""Every attempt, by every means that it applies to: it gains nothing, the run ends, the card names it."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from _pytest.mark import ParameterSet

from tests.isolation.escapes.cases.clouds import CLOUDS
from tests.isolation.escapes.cases.files import FILES
from tests.isolation.escapes.cases.git_folders import GIT_FOLDERS
from tests.isolation.escapes.cases.lanes import LANES
from tests.isolation.escapes.cases.later import LATER
from tests.isolation.escapes.cases.processes import PROCESSES
from tests.isolation.escapes.cases.programs import PROGRAMS
from tests.isolation.escapes.cases.repositories import REPOSITORIES
from tests.isolation.escapes.cases.settings import SETTINGS
from tests.isolation.escapes.cases.shown import SHOWN
from tests.isolation.escapes.cases.views import VIEWS
from tests.isolation.escapes.escape import Escape, together
from tests.isolation.escapes.scene import find_means, set_scene
from tests.isolation.means import needs

ESCAPES = (
    *SHOWN,
    *REPOSITORIES,
    *GIT_FOLDERS,
    *PROGRAMS,
    *FILES,
    *SETTINGS,
    *PROCESSES,
    *VIEWS,
    *LANES,
    *CLOUDS,
    *LATER,
)


def attempts(escapes: Iterable[Escape]) -> list[ParameterSet]:
    """Return each attempt by each of its means; where it still succeeds, the reason."""
    found = []
    for escape in escapes:
        for means in escape.means:
            marks = [needs(find_means(means))]
            if reason := escape.why_open(means):
                marks.append(pytest.mark.xfail(strict=True, reason=reason))
            found.append(pytest.param(escape, means, marks=marks, id=f"{escape.name} by {means}"))
    return found


def attack(escape: Escape, means: str) -> None:
    """Make an attempt; it gains nothing, and the card names it."""
    with set_scene(escape, means) as scene:
        scene.attack()
        assert scene.found == []
        assert not escape.named or scene.is_named, f"not on the card: {scene.card.get('tampering')}"


@pytest.mark.thorough
@pytest.mark.parametrize(("escape", "means"), attempts(ESCAPES))
def test_nothing_is_gained_outside(escape: Escape, means: str) -> None:
    attack(escape, means)


_NAMED = {escape.name: escape for escape in SHOWN}
TOGETHER = {
    ("what git and PATH lead to", "bwrap"): (
        *("hook in the tree", "program on PATH", "settings in another spelling"),
    ),
    ("what git's configuration includes", "bwrap"): ("submodule", "configuration that is included"),
    ("links and credentials", "bwrap"): ("link in the place of the plan", "credentials of package managers"),
    ("what is around the sandbox", "bwrap"): ("sockets, keys and processes", "sockets in temporary folders"),
    ("pipes", "bwrap"): ("pipe in the place of the plan",),
    ("environments", "bwrap"): ("setup script",),
    ("what Landlock cannot close", "landlock"): (
        *("configuration in one line", "link in the place of hooks", "sockets and keys"),
    ),
    ("no sandbox", "none"): ("no sandbox",),
}
"""What was shown, in as few runs as can be: `make test` has little time."""


@pytest.mark.thorough
@pytest.mark.quick(
    "links and credentials by bwrap", "what Landlock cannot close by landlock", "no sandbox by none"
)
@pytest.mark.parametrize(
    ("escape", "means"),
    attempts([together(*key, *(_NAMED[name] for name in names)) for key, names in TOGETHER.items()]),
)
def test_what_was_shown_gains_nothing(escape: Escape, means: str) -> None:
    attack(escape, means)


HONEST = [
    pytest.param(means, marks=needs(find_means(means)))
    for means in ("bwrap", "namespaces", "landlock", "lanes", "landlock lanes", "opened", "none")
]


@pytest.mark.quick("bwrap")
@pytest.mark.parametrize("means", HONEST)
def test_an_honest_agent_is_accused_of_nothing(means: str) -> None:
    with set_scene(Escape("nothing", ""), means) as scene:
        scene.attack()
        assert scene.found == []
        assert (scene.card["state"], scene.card["tampering"]) == ("done", [])


GUILTY = r"""
plant("tool"); sh("./tool")
(HOME / ".bashrc").write_text("mine")
(HOME / "new.txt").write_text(FACTS["word"])
take(HOME / ".ssh/id_ed25519")
plant("later")
"""


@pytest.mark.thorough
def test_what_is_gained_is_seen() -> None:
    """Otherwise the attempts would prove nothing."""
    with set_scene(Escape("everything", GUILTY, git=(("-c", "alias.x=!./later", "x"),)), "none") as scene:
        scene.attack()
        said = "\n".join(scene.found)
        for gain in ("ran outside: ['tool", ".bashrc", "new.txt", "a secret was copied", "nobody said so"):
            assert gain in said, said
