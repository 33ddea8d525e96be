"""Notifiers of other packages: a table switches one on, and everything else treats it like a built-in one."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from segue import check_notifier
from segue.domain.errors import UsageError
from segue.domain.notification import Notification
from segue.parts.notify.observer import make_notifiers
from segue.parts.notify.send import notify
from segue.runtime.app import App
from segue.system.redact import Redactor

EXAMPLES = Path(__file__).parents[3] / "examples" / "plugins"
METADATA = "Metadata-Version: 2.1\nName: segue-example\nVersion: 1.0\n"
ENTRY = "[segue.notifiers]\nlogbook = segue_example:LogbookNotifier\n"


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The example plug-in, installed in a folder on the path."""
    from segue.runtime import registry

    folder = tmp_path / "site" / "segue_example-1.0.dist-info"
    folder.mkdir(parents=True)
    (folder / "METADATA").write_text(METADATA)
    (folder / "entry_points.txt").write_text(ENTRY)
    monkeypatch.setattr(sys, "path", [str(folder.parent), str(EXAMPLES), *sys.path])
    registry._entry_points.cache_clear()
    yield tmp_path
    registry._entry_points.cache_clear()


def load(folder: Path, text: str) -> App:
    (folder / "segue.toml").write_text(text)
    return App.load(folder, folder / "segue.toml")


def test_a_table_switches_a_plug_in_on(installed: Path) -> None:
    log = installed / "log"
    app = load(installed, f'[notifiers.logbook]\nfile = "{log}"\n[notify.terminal]\nenabled = true\n')
    notifiers = make_notifiers(app)
    assert list(notifiers) == ["terminal", "logbook"]
    del notifiers["terminal"]
    said = asyncio.run(notify(notifiers, Notification("parked", "Title", "text"), Redactor([])))
    assert (said, log.read_text()) == ([], "parked: Title\n")


def test_its_options_are_checked_before_anything_is_sent(installed: Path) -> None:
    with pytest.raises(UsageError, match=r"notifiers\.logbook.*file"):
        make_notifiers(load(installed, "[notifiers.logbook]\n"))
    with pytest.raises(UsageError, match=r"did you mean notifiers\.logbook"):
        make_notifiers(load(installed, "[notifiers.logbok]\n"))


def test_the_example_keeps_the_promises(installed: Path) -> None:
    log = installed / "log"
    app = load(installed, f'[notifiers.logbook]\nfile = "{log}"\n')
    check_notifier(lambda: make_notifiers(app)["logbook"], log.read_text)
