"""Every attempt, by every means that it applies to: it gains nothing, the run ends, the card names it."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from _pytest.mark import ParameterSet

from tests.isolation.means import needs
from tests.slow.escapes.cases.files import FILES
from tests.slow.escapes.cases.git_folders import GIT_FOLDERS
from tests.slow.escapes.cases.lanes import LANES
from tests.slow.escapes.cases.later import LATER
from tests.slow.escapes.cases.processes import PROCESSES
from tests.slow.escapes.cases.programs import PROGRAMS
from tests.slow.escapes.cases.repositories import REPOSITORIES
from tests.slow.escapes.cases.settings import SETTINGS
from tests.slow.escapes.cases.shown import SHOWN
from tests.slow.escapes.cases.views import VIEWS
from tests.slow.escapes.escape import Escape
from tests.slow.escapes.scene import REPOSITORY, find_means, set_scene

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
    *LATER,
)


def attempts(escapes: Iterable[Escape]) -> list[ParameterSet]:
    """Return each attempt by each of its means; where it still succeeds, the reason."""
    found = []
    for escape in escapes:
        for means in escape.means:
            marks = [needs(find_means(means))]
            if (
                means == "landlock"
                and "sandbox.write" in escape.settings
                and REPOSITORY.is_relative_to("/tmp")
            ):
                marks.append(
                    pytest.mark.skip(reason="this checkout is in /tmp, which Landlock leaves writable")
                )
            if reason := escape.why_open(means):
                marks.append(pytest.mark.xfail(strict=True, reason=reason))
            found.append(pytest.param(escape, means, marks=marks, id=f"{escape.name} by {means}"))
    return found


@pytest.mark.parametrize(("escape", "means"), attempts(ESCAPES))
def test_nothing_is_gained_outside(escape: Escape, means: str) -> None:
    with set_scene(escape, means) as scene:
        scene.attack()
        assert scene.found == []
        assert not escape.named or scene.is_named, f"not on the card: {scene.card.get('tampering')}"


@pytest.mark.parametrize(
    "means", [pytest.param(means, marks=needs(find_means(means))) for means in ("bwrap", "landlock", "lanes")]
)
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


def test_what_is_gained_is_seen() -> None:
    """Otherwise the attempts would prove nothing."""
    with set_scene(Escape("everything", GUILTY, git=(("-c", "alias.x=!./later", "x"),)), "none") as scene:
        scene.attack()
        said = "\n".join(scene.found)
        for gain in ("ran outside: ['tool", ".bashrc", "new.txt", "a secret was copied", "nobody said so"):
            assert gain in said, said
