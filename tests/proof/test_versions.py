"""Which packages have another version that nothing but the product asks for."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from segue.proof.environments import find_bumps


def python(folder: Path, name: str, version: str, needs: str = "", files: tuple[str, ...] = ()) -> None:
    info = folder / f"lib/{name}-{version}.dist-info"
    info.mkdir(parents=True)
    requires = f"Requires-Dist: {needs} (>=1)\n" if needs else ""
    (info / "METADATA").write_text(
        f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{requires}\nText"
    )
    (info / "RECORD").write_text("".join(f"{file},,\n" for file in (f"{name}/__init__.py", *files)))


def node(folder: Path, path: str, version: str, needs: str = "") -> None:
    place = folder / "node_modules" / path
    place.mkdir(parents=True)
    facts = {"version": version, "dependencies": {needs: "*"} if needs else {}}
    (place / "package.json").write_text(json.dumps(facts))
    (place / "index.js").write_text(version)


def files(folder: Path) -> dict[str, Path]:
    return {str(path.relative_to(folder)): path for path in folder.rglob("*") if not path.is_dir()}


@pytest.mark.parametrize("install", [python, node])
def test_a_version_that_another_package_needs_is_left_out(tmp_path: Path, install: object) -> None:
    assert callable(install)
    for name, version in (("old", "1"), ("new", "2")):
        for package in ("alone", "needed"):
            install(tmp_path / name, package, version)
        install(tmp_path / name, "same", "1", "needed")
    found = find_bumps(files(tmp_path / "old"), files(tmp_path / "new"))
    assert [one.name for one in found] == ["alone"]
    assert all("needed" not in path and "same" not in path for path in found[0].files)


def test_a_file_that_two_packages_claim_belongs_to_neither(tmp_path: Path) -> None:
    for name, version in (("old", "1"), ("new", "2")):
        python(tmp_path / name, "alone", version, files=("runner/main.py", "../bin/alone"))
        python(tmp_path / name, "runner", "1", files=("runner/main.py",))
    (found,) = find_bumps(files(tmp_path / "old"), files(tmp_path / "new"))
    assert found.files == {"lib/alone/__init__.py", "bin/alone"}
    assert found.words == {"alone", "runner"}


def test_a_package_within_another_is_not_part_of_it(tmp_path: Path) -> None:
    for name, version in (("old", "1"), ("new", "2")):
        node(tmp_path / name, "@a/alone", version)
        node(tmp_path / name, "@a/alone/node_modules/inner", "1")
        programs = tmp_path / name / "node_modules/.bin"
        programs.mkdir()
        (programs / "alone").symlink_to("../@a/alone/index.js")
        (programs / "other").symlink_to("../other/index.js")
    (found,) = find_bumps(files(tmp_path / "old"), files(tmp_path / "new"))
    place = "node_modules/@a/alone"
    assert found.files == {f"{place}/package.json", f"{place}/index.js", "node_modules/.bin/alone"}
