"""A realistic Spec Kit feature: the example of the documentation."""

from __future__ import annotations

import shutil
from pathlib import Path

EXAMPLE = Path(__file__).parents[2] / "examples" / "speckit"


def example(root: Path) -> Path:
    """Copy the example of the documentation and return its feature."""
    shutil.copytree(EXAMPLE, root, dirs_exist_ok=True)
    return root / "specs" / "001-lending"
