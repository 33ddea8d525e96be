"""Old names of commands, options and settings: each is answered with the new one."""

from __future__ import annotations

import pytest

from tests.cli.place import Place


@pytest.mark.parametrize(
    ("words", "sentence", "line"),
    [
        (["version"], "`version` is `segue --version` here.", "segue --version"),
        (["exit-codes"], "`exit-codes` is `segue help exit-codes` here.", "segue help exit-codes"),
        (
            ["run", "my plan.md", "--commits-missing=keep", "--json"],
            "--commits-missing is called --plan-changed here.",
            "segue run 'my plan.md' --plan-changed keep --json",
        ),
        (
            ["run", "plan.md", "--jobs", "4", "--order", "--yes"],
            "--order is now --jobs 1",
            "segue run plan.md --yes --jobs 1",
        ),
        (["task", "graph", "plan.md", "--order"], "--order is now --jobs 1", "segue task graph plan.md"),
        (["config", "show"], "`config show` is `segue config list` here.", "segue config list"),
        (
            ["run", "plan.md", "--parallel", "4"],
            "--parallel is called --jobs here",
            "segue run plan.md --jobs 4",
        ),
        (["--json", "status"], "The command comes first: `status` follows --json.", "segue status --json"),
        (["last", "status"], "The command comes first: `status` follows last.", "segue status last"),
        (["run", "plan.md", "--serve", "--stay"], "--stay is now `segue serve`", "segue run plan.md --serve"),
    ],
)
def test_an_old_name_is_answered_with_the_line_to_type(
    place: Place, words: list[str], sentence: str, line: str
) -> None:
    said = place.segue(*words, code=2).stderr
    assert sentence in said
    assert said.endswith(f"  Next: Type: {line}\n")


def test_an_old_setting_is_named_once_and_works(place: Place) -> None:
    done = place.segue("run", "--agent", "scripted", "--task", "1", SEGUE_PLAN_PATH="plan.md")
    assert done.stderr.count("SEGUE_PLAN_PATH is now SEGUE_SOURCE.") == 1
    assert place.subjects() == ["Task 1: Write one."]
