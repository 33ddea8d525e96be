"""Which feature is meant, as Spec Kit itself finds it."""

from __future__ import annotations

from pathlib import Path

import pytest

from segue.domain.errors import SourceError
from segue.sources.speckit.project import find_feature


def project(root: Path, *features: str) -> Path:
    (root / ".specify").mkdir(parents=True)
    for name in features:
        (root / name).mkdir(parents=True)
        (root / name / "tasks.md").write_text("- [ ] T001 One\n")
    return root


def refused(argument: str | None, start: Path, environ: dict[str, str] | None = None) -> SourceError:
    with pytest.raises(SourceError) as caught:
        find_feature(argument, start, environ or {})
    assert caught.value.kept
    assert caught.value.hint
    return caught.value


@pytest.mark.parametrize(
    "argument", ["specs/002-b", "specs/002-b/", "specs/002-b/tasks.md", "002-b", "002", "./specs/002-b"]
)
def test_by_its_name(tmp_path: Path, argument: str) -> None:
    root = project(tmp_path, "specs/001-a", "specs/002-b")
    assert find_feature(argument, root, {}) == root / "specs" / "002-b"


def test_the_argument_goes_before_everything(tmp_path: Path) -> None:
    root = project(tmp_path, "specs/001-a", "specs/002-b", "docs/c")
    (root / ".specify" / "feature.json").write_text('{"feature_directory": "specs/002-b"}')
    environ = {"SPECIFY_FEATURE_DIRECTORY": "docs/c"}
    assert find_feature("specs/001-a", root, environ) == root / "specs" / "001-a"
    assert find_feature(None, root, environ) == root / "docs" / "c"
    assert find_feature(None, root, {}) == root / "specs" / "002-b"


def test_the_project_named_by_the_environment(tmp_path: Path) -> None:
    root = project(tmp_path / "one", "specs/001-a")
    project(tmp_path / "two", "specs/002-b")
    assert find_feature(None, tmp_path / "two", {"SPECIFY_INIT_DIR": str(root)}) == root / "specs" / "001-a"


@pytest.mark.parametrize(
    "place", ["specs/001-a", "kitty-specs/main", ".specify/specs/x", "docs/specs/01_name", "."]
)
def test_the_only_one(tmp_path: Path, place: str) -> None:
    (tmp_path / "node_modules" / "x").mkdir(parents=True)
    (tmp_path / "node_modules" / "x" / "tasks.md").touch()
    (tmp_path / place).mkdir(parents=True, exist_ok=True)
    (tmp_path / place / "tasks.md").touch()
    assert find_feature(None, tmp_path, {}) == tmp_path / place
    assert find_feature(".", tmp_path, {}) == tmp_path / place


def test_several_are_listed(tmp_path: Path) -> None:
    root = project(tmp_path, "specs/001-a", "specs/002-b")
    message = refused(None, root).message
    assert "There are 2 features" in message
    assert "\n  specs/001-a\n  specs/002-b" in message
    assert "not unique" in refused("00", root).message
    assert "specs/001-a" in refused("nothing", root).message


def test_a_feature_without_tasks_is_told(tmp_path: Path) -> None:
    root = project(tmp_path)
    (root / "specs" / "001-a").mkdir(parents=True)
    assert "There is no tasks.md under" in refused("specs/001-a", root).message
    assert "There is no tasks.md under" in refused(None, root).message
    named = refused(None, root, {"SPECIFY_FEATURE_DIRECTORY": "specs/001-a"})
    assert named.message.startswith("SPECIFY_FEATURE_DIRECTORY names")
    assert "no tasks.md in it" in named.message
    assert "/speckit.tasks" in named.hint
    assert "no such folder" in refused(None, root, {"SPECIFY_FEATURE_DIRECTORY": "specs/x"}).message
