"""The command reviewer with real programs, ruff among them."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from segue.domain.options import OptionError, fill_placeholders, read_options, split_command
from segue.domain.verdict import Review, Severity
from segue.reviewers.command import CommandReviewer
from segue.reviewers.options import CommandReviewOptions
from tests.reviewers.place import Place, preset
from tests.services import make_services

RUFF = str(Path(sys.executable).parent / "ruff")
SECRET = "sk-not-for-your-eyes-0123456789"


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place.make(tmp_path)


def review(place: Place, options: CommandReviewOptions, base: str, again: bool = False) -> Review:
    reviewer = CommandReviewer(options, make_services(place.repo, secrets=[SECRET]))
    assert reviewer.check() == []
    return asyncio.run(reviewer.review(place.subject(base, "T 1"), again))


def python(code: str, *words: str, **options: Any) -> CommandReviewOptions:
    argv = [sys.executable, "-c", code.replace("{", "{{").replace("}", "}}"), *words]
    return read_options(CommandReviewOptions, {"argv": argv, "format": "stet", **options})


def finds(*findings: str, first: str = "") -> str:
    """Code that prints findings: each is the inside of a dictionary."""
    listed = ", ".join("{" + one + "}" for one in findings)
    return f"import json, os, sys; {first}print(json.dumps(dict(findings=[{listed}])))"


def with_ruff(**changes: Any) -> CommandReviewOptions:
    """The preset, with ruff found where this interpreter lives."""
    env = {"PATH": f"{Path(RUFF).parent}{os.pathsep}{os.environ['PATH']}"}
    return preset("ruff", env=env, **changes)


def test_ruff_itself(place: Place) -> None:
    place.commit({"old.py": "import sys\n"})
    base = place.head
    place.commit({"src/new.py": "import os\n", "broken.py": "def f(:\n"})
    done = review(place, with_ruff(), base)
    assert done.failure == ""
    unused = next(finding for finding in done.findings if finding.rule == "F401")
    assert (unused.file, unused.line, unused.severity) == ("src/new.py", 1, Severity.ERROR)
    assert "os" in unused.suggestion
    assert any(finding.file == "broken.py" for finding in done.findings)
    assert not any(finding.file == "old.py" for finding in done.findings), "the task has not touched it"
    assert any(finding.file == "old.py" for finding in review(place, with_ruff(scope="all"), base).findings)
    assert place.git("status", "--porcelain", "--ignored") == "", "no cache is left behind"
    place.commit({"src/new.py": "", "broken.py": ""})
    mended = review(place, with_ruff(), base, again=True)
    assert (mended.failure, mended.findings) == ("", ())


def test_ruff_used_wrongly_is_a_failure(place: Place) -> None:
    done = review(place, with_ruff(argv=["ruff", "check", "--no-such-flag"]), place.head)
    assert done.findings == ()
    assert "exit code 2" in done.failure
    assert "--no-such-flag" in done.failure


def test_placeholders_are_filled(place: Place) -> None:
    base = place.head
    place.commit({"a.py": "1\n"})
    options = python(finds('"message": "|".join(sys.argv[1:])'), "{base}", "{head}", "{repo}", "{task}")
    wanted = f"{base}|{place.head}|{place.repo}|T 1"
    assert review(place, options, base).findings[0].message == wanted


def test_a_file_that_is_not_committed_counts_as_changed(place: Place) -> None:
    (place.repo / "new.py").write_text("")
    code = finds('"message": "m", "file": "new.py"', '"message": "m", "file": "README.md"')
    assert [finding.file for finding in review(place, python(code), place.head).findings] == ["new.py"]


@pytest.mark.parametrize(
    ("code", "options", "is_found"),
    [
        ("raise SystemExit(0)", {}, False),
        ("print('2 tests failed'); raise SystemExit(1)", {}, True),
        ("print('2 tests failed'); raise SystemExit(4)", {"findings_codes": [4]}, True),
        ("raise SystemExit(7)", {"ok_codes": [0, 7]}, False),
    ],
)
def test_the_exit_code_as_the_only_word(
    place: Place, code: str, options: dict[str, Any], is_found: bool
) -> None:
    done = review(place, python(code, format="exit-code", **options), place.head)
    assert done.failure == ""
    assert [finding.message for finding in done.findings] == (["2 tests failed"] if is_found else [])


@pytest.mark.parametrize(
    ("code", "options", "why"),
    [
        ("raise SystemExit(3)", {}, "exit code 3"),
        ("print('0 finding(s).'); raise SystemExit(1)", {}, "means findings"),
        ("print('Traceback')", {}, "cannot be read"),
        ("print('Traceback')", {"format": "sarif"}, "cannot be read"),
        ("import time; time.sleep(600)", {"timeout": 0.5}, "did not finish within 0.5 s"),
    ],
)
def test_a_failure_is_never_a_review_without_findings(
    place: Place, code: str, options: dict[str, Any], why: str
) -> None:
    done = review(place, python(code, **options), place.head)
    assert why in done.failure
    assert done.findings == ()


def test_a_base_that_is_gone_is_a_failure(place: Place) -> None:
    done = review(place, python(finds('"message": "m", "file": "a"')), "0" * 40)
    assert "git cannot tell what has changed" in done.failure


def test_what_is_not_severe_enough_is_left_out(place: Place) -> None:
    grades = ("error", "warning", "info", "nitpick")
    code = finds(*(f'"message": "{grade}", "severity": "{grade}"' for grade in grades))
    assert [f.message for f in review(place, python(code), place.head).findings] == list(grades[:3])
    strict = python(code, min_severity="error")
    assert [f.message for f in review(place, strict, place.head).findings] == ["error"]


def test_secrets_are_taken_out_and_the_environment_is_allow_listed(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MY_TOKEN", "token")
    monkeypatch.setenv("MY_FLAG", "flag")
    said = f'"message": "{SECRET} %s %s" % (os.getenv("MY_TOKEN"), os.getenv("MY_FLAG"))'
    code = finds(said, first=f'print("{SECRET}", file=sys.stderr); ')
    done = review(place, python(code, pass_env=["MY_FLAG"]), place.head)
    assert done.findings[0].message == "[redacted] None flag"
    assert SECRET not in done.output
    failed = review(place, python(f"raise SystemExit('{SECRET}')", findings_codes=[]), place.head)
    assert SECRET not in failed.failure


def test_a_program_that_is_not_there(place: Place) -> None:
    options = read_options(CommandReviewOptions, {"argv": ["no-such-linter"], "format": "sarif"})
    reviewer = CommandReviewer(options, make_services(place.repo), "lint")
    (problem,) = reviewer.check()
    assert problem.exit_code == 5
    assert "reviewers.lint.argv" in problem.fix
    done = asyncio.run(reviewer.review(place.subject(place.head), again=False))
    assert "no-such-linter" in done.failure


def test_a_script_in_the_repository_is_found_from_its_root(place: Place) -> None:
    base = place.commit({"tools/lint.sh": '#!/bin/sh\necho \'{"findings": [{"message": "found"}]}\'\n'})
    (place.repo / "tools" / "lint.sh").chmod(0o755)
    options = read_options(CommandReviewOptions, {"argv": "tools/lint.sh --all", "format": "stet"})
    assert review(place, options, base).findings[0].message == "found"


@pytest.mark.parametrize(
    "wrong",
    [
        {"argv": ["x"]},
        {"argv": [], "format": "sarif"},
        {"argv": ["x\0"], "format": "sarif"},
        {"argv": ["x", "{sha}"], "format": "sarif"},
        {"argv": ["x"], "format": "xml"},
        {"argv": ["x"], "format": "sarif", "min_severity": "bad"},
    ],
)
def test_mistakes_in_the_options(wrong: dict[str, Any]) -> None:
    with pytest.raises(OptionError):
        read_options(CommandReviewOptions, wrong)


@given(st.lists(st.text(min_size=1, alphabet=st.characters(blacklist_characters="'\0\n")), min_size=1))
def test_quoted_words_come_through_whole(words: list[str]) -> None:
    assert split_command(" ".join(f"'{word}'" for word in words)) == words


@given(st.text())
def test_a_value_is_never_looked_at_again(value: str) -> None:
    assert fill_placeholders("{{{base}}}", {"base": value}) == "{" + value + "}"
