"""The data card: what the folder contains, as the Hub and people read it."""

from __future__ import annotations

import json
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING

from segue import __version__
from segue.store.flat import FLAT_TABLES
from segue.system.files import write_atomic

if TYPE_CHECKING:
    from segue.parts.lab.dataset.publish import Publication

_UNSTATED = "Not stated. Until one is, others may not use it: `segue dataset publish --licence …`"
_SIZES = ((1_000, "n<1K"), (10_000, "1K<n<10K"), (100_000, "10K<n<100K"), (1_000_000, "100K<n<1M"))


def write_card(place: Path, made: Publication) -> None:
    """Write README.md: a YAML header that the Hub reads, and a text for people."""
    rows = sum(made.tables.values())
    size = next((name for most, name in _SIZES if rows < most), "n>1M")
    configs = [
        f"- config_name: {name}\n  data_files: data/{name}.parquet"
        + ("\n  default: true" if name == "attempts" else "")
        for name, count in made.tables.items()
        if count
    ]
    header = [
        *("---", f"pretty_name: {json.dumps(made.name)}", f"license: {made.licence}"),
        *("tags:", "- code", "- agent", "- traces", "- segue", "size_categories:", f"- {size}"),
        *(("configs:", *configs) if configs else ()),
        "---",
    ]
    tables = [f"| `{name}` | {made.tables[name]} | {FLAT_TABLES[name].about} |" for name in FLAT_TABLES]
    total = made.redaction.get("total", {})
    body = (
        (files("segue.parts.lab.dataset") / "card.md")
        .read_text("utf-8")
        .format(
            name=made.name,
            tasks=made.tables["tasks"],
            runs=made.runs,
            version=__version__,
            tables="\n".join(tables),
            instances=made.instances,
            repository=place.absolute().parent.name,
            masked=total.get("secrets_masked_now", 0),
            kept=total.get("mail_addresses_kept", 0),
            licence=_UNSTATED if made.licence == "unknown" else f"`{made.licence}`",
        )
    )
    write_atomic(place, ("\n".join(header) + "\n\n" + body).encode())
