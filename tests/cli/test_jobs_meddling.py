"""What users do in the repository while several tasks are worked on at once harms neither side."""

from __future__ import annotations

import subprocess

import pytest

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


@pytest.mark.thorough
@pytest.mark.torture
def test_a_gc_that_never_rests_does_no_harm(place: Place) -> None:
    place.script('[[on]]\ndelay = 0.5\nwrite = { "f{task}" = "x", "d/g{task}" = "y" }\n')
    loop = "while test ! -e ../done; do git gc --quiet; sleep 0.05; done 2> /dev/null"
    collector = subprocess.Popen(["sh", "-c", loop], cwd=place.repo, env=place.env)
    try:
        place.segue("run", "plan.md", "--jobs", "3")
    finally:
        (place.repo.parent / "done").touch()
        collector.wait(DEADLINE)
    assert len(list(place.repo.glob("f*"))) == 3
    place.git("fsck", "--strict")
