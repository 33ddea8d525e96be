"""Give a composed tree a git folder of its own, in which it is what was committed last.

Checks compare what they generate with what is committed (`git diff --exit-code`), and ask git for versions.
The user's own git folder knows another tree.
"""

from __future__ import annotations

from pathlib import Path

from segue.proof.command import SHARED_OBJECTS
from segue.proof.compose import Composed
from segue.proof.git_copy import GitSource, make_git
from segue.proof.trees import write_index
from segue.system.git.objects import Objects, as_alternates

_ALONE = ("-c", "gc.auto=0", "-c", "maintenance.auto=false", "-c", "core.fsyncMethod=batch")
_WHO = {
    f"GIT_{role}_{part}": value
    for role in ("AUTHOR", "COMMITTER")
    for part, value in (("NAME", "check"), ("EMAIL", "check@localhost"))
}


async def make_repository(tree: Path, composed: Composed, objects: Objects) -> Path | None:
    """Commit a tree in a git folder of its own, on top of the last commit; return the objects that it shares.

    None: the work tree is in no repository.
    """
    if objects.place is None or (tree / ".git").exists():
        return None
    git = tree / ".git"
    make_git(git, GitSource(objects.place.git_dir, objects))
    (git / "index").unlink(missing_ok=True)
    shared = objects.common_dir / "objects"
    variables = {
        "GIT_DIR": str(git),
        "GIT_WORK_TREE": str(tree),
        "GIT_OBJECT_DIRECTORY": str(git / "objects"),
        **as_alternates(shared, *filter(None, [objects.aside])),
        **_WHO,
    }
    await write_index(objects, composed.entries, variables)
    commit = ("commit", "--quiet", "--all", "--no-verify", "--no-gpg-sign", "--message", "Change")
    # 1: nothing differs from the last commit
    await objects.git(*_ALONE, *commit, variables=variables, codes=(0, 1), where=tree)
    (git / "objects/info/alternates").write_text(f"../{SHARED_OBJECTS.rpartition('/')[2]}\n")
    return shared
