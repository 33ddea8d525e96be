"""Make the databases of an older version, by running that version.

    git worktree add --detach OLD COMMIT
    .venv/bin/python -m tests.store.old.make OLD/src 0.1

0.1 is commit ab3da8e6, 0.2 is the parent of 9982ab5a. What is made: a run that is done, one that waits for a
person, and one in the middle of which Segue, supervisor and agent were killed; each in SQLite and Postgres.
"""

from __future__ import annotations

import io
import os
import shutil
import sqlite3
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import psutil

from tests.conftest import start_postgres

HERE = Path(__file__).parent
PLAN = "# Plan\n\n## Task 1\n\nWrite one.\n\n## Task 2\n\nWrite two.\n\n## Task 3\n\nWrite three.\n"
WORK = '[[on]]\nwrite = { "f{task}" = "x" }\n'
IDLE_AT_2 = '[[on]]\ntask = "2"\nsay = "There is nothing to do."\n' + WORK
HANG_AT_2 = '[[on]]\ntask = "2"\nwrite = { begun = "x" }\nhang = true\n' + WORK
PLACE, KEY = "@PLACE@", "@KEY@"
"""What stands for the folder and for the key that follows from it."""
DUMP = ("pg_dump", "--inserts", "--rows-per-insert=100", "--no-owner", "--no-privileges")


def main() -> None:
    source, version = Path(sys.argv[1]).absolute(), sys.argv[2]
    (HERE / version).mkdir(exist_ok=True)
    for state in sys.argv[3:] or ("done", "waiting", "killed"):
        make(source, version, state, "sqlite")
        with start_postgres() as server:
            os.environ["PATH"] = f"{server.bin_path}:{os.environ['PATH']}"
            make(source, version, state, "postgres", server.get_uri())


def make(source: Path, version: str, state: str, kind: str, url: str = "") -> None:
    folder = Path(tempfile.mkdtemp(prefix="segue-old-"))
    try:
        _run(source, version, state, folder, url)
        text = _dump_postgres(url) if url else _dump_sqlite(folder / "state" / "segue.db")
        _pack(folder, text, HERE / version / f"{state}.{kind}.tar.gz")
    finally:
        shutil.rmtree(folder)


def _run(source: Path, version: str, state: str, folder: Path, url: str) -> None:
    repo = folder / "repo"
    repo.mkdir()
    (repo / "plan.md").write_text(PLAN)
    for words in ("init -q -b main --template=", "add .", "commit -q -m Begin"):
        subprocess.run(["git", *words.split()], cwd=repo, env=_environment(source, folder, url), check=True)
    script = {"done": WORK, "waiting": IDLE_AT_2, "killed": HANG_AT_2}[state]
    (folder / "script.toml").write_text(script)
    options = ["--plan-format", "lenient"] if version == "0.1" else ["--isolation", "none", "--yes"]
    if state == "waiting" and version != "0.1":
        (folder / "script.toml").write_text(WORK)
        options += ["--pause-after-task", "--commits-missing", "keep"]
    process = subprocess.Popen(
        [sys.executable, "-m", "segue", "run", "plan.md", "--agent", "scripted", *options],
        cwd=repo,
        env=_environment(source, folder, url),
    )
    if state == "killed":
        while process.poll() is None and not (repo / "begun").exists():
            time.sleep(0.05)
        time.sleep(1)  # the journal writes in batches
        process.kill()
        for one in _processes_of(folder):
            one.kill()
    sys.stdout.write(f"{version} {state}: ended with {process.wait()}\n")


def _environment(source: Path, folder: Path, url: str) -> dict[str, str]:
    names = ("GIT_AUTHOR_NAME", "GIT_COMMITTER_NAME", "GIT_AUTHOR_EMAIL", "GIT_COMMITTER_EMAIL")
    return {
        "PATH": os.environ["PATH"],
        "PYTHONPATH": str(source),
        "HOME": str(folder),
        "SEGUE_STATE_DIR": str(folder / "state"),
        "SEGUE_AGENTS__SCRIPTED__SCRIPT": str(folder / "script.toml"),
        "SEGUE_DATABASE_URL": url,
        **dict.fromkeys(names, "t@example.org"),
    }


def _processes_of(folder: Path) -> Iterator[psutil.Process]:
    for one in psutil.process_iter():
        try:
            words, here = one.cmdline(), one.cwd()
        except psutil.Error:
            continue
        if any(str(folder) in word for word in (*words, here)):
            yield one


def _dump_sqlite(path: Path) -> str:
    with closing(sqlite3.connect(path)) as database:
        return "\n".join(database.iterdump())


def _dump_postgres(url: str) -> str:
    text = subprocess.run([*DUMP, url], check=True, capture_output=True, text=True).stdout
    return "".join(line for line in text.splitlines(keepends=True) if not line.startswith(("\\", "--")))


def _pack(folder: Path, database: str, target: Path) -> None:
    """Pack what is in the folder, with other words for where it is: see `restore`."""
    (folder / "database.sql").write_text(database)
    [state_file] = (folder / "state" / "plans").glob("*.json")
    for path in (folder / "state").glob("segue.db*"):
        path.unlink()
    shutil.rmtree(folder / "state" / "plans")  # its digest would be wrong elsewhere; it is rebuilt
    with tarfile.open(target, "w:gz") as packed:
        for path in sorted(path for path in folder.rglob("*") if path.is_file()):
            data = path.read_bytes()
            if ".git/objects" not in str(path):
                data = data.replace(str(folder).encode(), PLACE.encode())
                data = data.replace(state_file.stem.encode(), KEY.encode())
            entry = tarfile.TarInfo(str(path.relative_to(folder)))
            entry.size = len(data)
            packed.addfile(entry, io.BytesIO(data))


if __name__ == "__main__":
    main()
