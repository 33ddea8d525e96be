"""The prompts about a task say what its kind asks for, and what is not the agent's to change."""

from __future__ import annotations

import pytest

from segue.domain.task import Task, TaskKind
from segue.domain.verdict import Action, Finding, Result, Severity, Verdict
from segue.prompts.task import address_prompt, execute_prompt, resolve_prompt

FINDING = Finding("1", "a.py", 1, Severity.ERROR, "rule", "message")
VERDICT = Verdict(Result.FAIL, Action.RETRY, "Something is missing.")
RUN_TESTS = "fix what you broke"
SPECIAL = {
    TaskKind.BUILD: RUN_TESTS,
    TaskKind.TEST_FIRST: "Do not implement what they test",
    TaskKind.VERIFY_ONLY: "Fix nothing unless the task asks for it",
    TaskKind.DOCS: "do not change what the program does",
}


def prompts(kind: TaskKind, cloud: bool) -> list[str]:
    task = Task("T001", "Do it", "Do it well.", kind=kind)
    made = (
        execute_prompt(task, "", cloud=cloud),
        resolve_prompt(task, "", VERDICT, cloud=cloud),
        address_prompt(task, [FINDING], cloud=cloud),
    )
    return [prompt.text for prompt in made]


@pytest.mark.parametrize("cloud", [False, True])
@pytest.mark.parametrize("kind", SPECIAL)
def test_every_prompt_that_edits_says_what_is_not_the_agents(kind: TaskKind, cloud: bool) -> None:
    for text in prompts(kind, cloud):
        assert "do not tick boxes or edit the plan, the spec or segue.toml" in text
        assert "have no effect unless the task asks for them" in text
        assert ("Leave commits" if cloud else "Do not commit") in text


@pytest.mark.parametrize("kind", SPECIAL)
def test_every_prompt_that_edits_says_what_the_kind_asks_for(kind: TaskKind) -> None:
    for text in prompts(kind, cloud=False):
        assert [other for other, words in SPECIAL.items() if words in text] == [kind]


def test_prompts_of_a_run_begin_alike_up_to_what_is_about_the_task() -> None:
    """Vendors cache how prompts begin, byte for byte: rules and background come first."""
    background = "The shop sells books.\n" * 50
    tasks = [Task("1", "Add a price", "Add it."), Task("2", "Write the page", "Do.", kind=TaskKind.DOCS)]
    texts = [execute_prompt(task, background, nonce="run-1").text for task in tasks]
    one, other = texts
    same = one[
        : next(place for place, pair in enumerate(zip(one, other, strict=False)) if pair[0] != pair[1])
    ]
    assert background in same
    assert "nobody answers while you work" in same
    assert "Add a price" not in same
    assert len({execute_prompt(tasks[0], background, nonce="run-1").digest for _ in range(2)}) == 1
