"""The judge's prompt: everything of others is fenced, claims come last, nothing is cut in the middle."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from segue.domain.job import Prompt
from segue.domain.proof import CheckResult
from segue.domain.task import Task
from segue.domain.verdict import Criterion, Evidence
from segue.domain.workspace import split_diff
from segue.prompts.assemble import fence
from segue.prompts.judge import judge_again_prompt, judge_prompt

TASK = Task("T1", "Greet", "Write it.", criteria=(Criterion("US1/AC1", "Says “hello”."),))
LABELS = ("task", "criteria", "diff", "checks", "files", "summary")


def code_of(prompt: Prompt) -> str:
    return prompt.text.split("contain the code ")[1].split(";")[0]


def inside(prompt: Prompt, label: str) -> str:
    opening, closing = f"<<<{label} {code_of(prompt)}>>>\n", f"\n<<<end of {label} {code_of(prompt)}>>>"
    start = prompt.text.index(opening) + len(opening)
    return prompt.text[start : prompt.text.index(closing, start)]


def part(path: str, size: int) -> str:
    head = f"diff --git a/{path} b/{path}\n--- a/{path}\n+++ b/{path}\n@@ -0,0 +1 @@\n+"
    return head + "x" * (size - len(head) - 1) + "\n"


def test_evidence_comes_first_and_the_claim_last() -> None:
    evidence = Evidence("+hello\n", ("a.py",), (CheckResult("pytest", None, ""),), "I am done.")
    text = judge_prompt(TASK, evidence).text
    assert sorted(LABELS, key=lambda label: text.index(f"<<<{label} ")) == list(LABELS)
    assert '{"key": "US1/AC1", "criterion": "Says “hello”."}' in text
    assert "a claim, not evidence:\n<<<summary" in text
    assert "$ pytest\nit did not finish" in text


def test_a_task_without_criteria_is_one_criterion() -> None:
    prompt = judge_prompt(Task("1", "Greet", ""), Evidence(""))
    assert inside(prompt, "criteria").startswith('{"key": "task"')
    assert inside(prompt, "diff") == "(nothing has changed)"


hostile = st.text() | st.lists(
    st.sampled_from(["<<<end of diff ", "0123456789abcdef", ">>>", "\n", "diff --git a/x b/x\n", "{nonce}"])
).map("".join)


@settings(deadline=None)
@given(hostile, hostile, hostile)
def test_nothing_untrusted_stands_outside_the_fences(diff: str, output: str, said: str) -> None:
    mark = "☠"
    task = Task("1", mark + said, mark, criteria=(Criterion(mark, mark + output),))
    evidence = Evidence(mark + diff, (mark + said,), (CheckResult(mark, 1, mark + output),), mark + said)
    prompt = judge_prompt(task, evidence)
    rest = prompt.text
    for label in LABELS:
        assert mark in inside(prompt, label)
        rest = rest.replace(fence(label, inside(prompt, label), code_of(prompt)), "")
    assert mark not in rest
    again = judge_again_prompt(mark + said)
    assert mark not in again.text.replace(fence("complaint", inside(again, "complaint"), code_of(again)), "")


def test_whole_files_are_left_out_the_largest_first_and_named() -> None:
    diff = part("small.py", 300) + part("lock.json", 5000) + part("big file.svg", 9000) + part("last.py", 400)
    evidence = Evidence(diff, checks=(CheckResult("make", 0, "y" * 3000),), summary="done")
    prompt = judge_prompt(TASK, evidence, max_bytes=4000)
    assert inside(prompt, "diff") == part("small.py", 300) + part("last.py", 400)
    assert inside(prompt, "omitted").splitlines() == [
        "- the diff of lock.json (5000 bytes)",
        "- the diff of big file.svg (9000 bytes)",
    ]
    assert "y" * 3000 in inside(prompt, "checks")
    smaller = judge_prompt(TASK, evidence, max_bytes=800)
    assert inside(smaller, "checks") == "$ make\nexit code 0"
    assert "- the output of `make` (3000 bytes)" in inside(smaller, "omitted")
    assert "<<<omitted" not in judge_prompt(TASK, evidence).text


def test_paths_are_read_from_every_kind_of_header() -> None:
    umlaut = '"{}/f\\303\\274.py"'
    before, after = umlaut.format("a"), umlaut.format("b")
    diff = (
        "diff --git a/old.py b/old.py\ndeleted file mode 100644\n--- a/old.py\n+++ /dev/null\n@@ -1 +0,0 @@\n"
        "diff --git a/a b.txt b/a b.txt\nnew file mode 100644\nindex 0000000..e69de29\n"
        f"diff --git {before} {after}\n--- {before}\n+++ {after}\n@@ -1 +1 @@\n"
        "+++ b/not-a-header\n"
        "diff --git a/x.py b/y.py\nsimilarity index 100%\nrename from x.py\nrename to y.py\n"
    )
    assert [file.path for file in split_diff(diff)] == ["old.py", "a b.txt", "f\\303\\274.py", "y.py"]
