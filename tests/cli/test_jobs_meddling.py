"""What users do in the repository while several tasks are worked on at once harms neither side."""

from __future__ import annotations

import subprocess

from tests.cli.place import DEADLINE, Place, until


def branch_of_run(place: Place) -> str:
    """Return the branch on which the run collects its work."""
    return place.git("branch", "--list", "segue/*", "--format=%(refname:short)").strip()


def test_what_i_commit_on_the_branch_of_the_run_becomes_part_of_it(place: Place) -> None:
    place.script('[[on]]\nwait_for = "GATE"\nwrite = { "f{task}" = "x" }\n')
    process = place.start("run", "plan.md", "--jobs", "3")
    until(lambda: place.started("task/1/execute/1"), "the agent works")
    tree = place.root / "mine"
    place.git("worktree", "add", "--quiet", str(tree), branch_of_run(place))
    (tree / "mine").write_text("mine")
    for arguments in (["add", "mine"], ["commit", "--quiet", "-m", "Mine"]):
        subprocess.run(["git", *arguments], cwd=tree, check=True, env=place.env)
    (tree / "note").write_text("uncommitted")
    place.gate.touch()
    assert process.wait(DEADLINE) == 0, [file.read_text() for file in place.root.glob("out-*")]
    assert sorted(path.name for path in place.repo.glob("[fm]*")) == ["f1", "f2", "f3", "mine"]
    assert (tree / "note").read_text() == "uncommitted"
    assert sorted(path.name for path in tree.glob("[fm]*")) == ["f1", "f2", "f3", "mine"], "files follow"
