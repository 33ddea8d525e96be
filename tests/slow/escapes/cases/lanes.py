"""Several tasks at once: a lane reaches neither another one, nor the run's branch, nor the user's tree."""

from __future__ import annotations

from collections.abc import Iterator

from tests.slow.escapes.escape import Escape
from tests.slow.escapes.scene import Scene


def reached_others(scene: Scene) -> Iterator[str]:
    """Find what came into the user's tree, or into another lane, past the merge."""
    for path in (*scene.repo.glob("past-*"), *scene.root.glob("state/**/past-*")):
        yield f"written past the merge: {path.relative_to(scene.root)}"
    if "past" in scene.place.git("log", "--all", "--format=%s"):
        yield "a commit of the agent is on a branch"


def keep_user_edits(scene: Scene) -> None:
    """Leave files of the user that are not committed."""
    scene.commit(**{".gitignore": ".venv/\nnode_modules/\nkept.txt\n"})
    scene.write("kept.txt", "the user's")
    scene.write("node_modules/one", "the user's")
    scene.facts["user"] = str(scene.repo)


def lost_edits(scene: Scene) -> Iterator[str]:
    """Find out whether files of the user have changed."""
    for name in ("kept.txt", "node_modules/one"):
        if (scene.repo / name).read_text() != "the user's":
            yield f"changed: {name}"
    yield from reached_others(scene)


LANES = (
    Escape(
        "another lane",
        """
places = [*STATE.glob("worktrees/*/*"), *STATE.glob("worktrees/*"), *REPO.parent.iterdir()]
for place in places:
    if place.is_dir() and not place.samefile(REPO):
        with contextlib.suppress(OSError):
            (place / "past-lane.txt").write_text("x")
""",
        means=("lanes",),
        gains=reached_others,
    ),
    Escape(
        "the user's own work tree",
        """
for name in ("kept.txt", "node_modules/one", "past-user.txt", "../repo/past-too.txt"):
    with contextlib.suppress(OSError):
        (Path(FACTS["user"]) / name).write_text("x") if Path(FACTS["user"]) != REPO else None
with contextlib.suppress(OSError):
    Path("node_modules/one").write_text("x")
""",
        means=("lanes",),
        prepare=keep_user_edits,
        gains=lost_edits,
    ),
    Escape(
        "branches of other lanes",
        """
for ref in git("for-each-ref", "--format=%(refname)").split():
    forged = git("commit-tree", git("rev-parse", "HEAD^{tree}"), "-p", "HEAD", "-m", "past")
    git("update-ref", ref, forged)
""",
        means=("lanes",),
        gains=reached_others,
    ),
)
