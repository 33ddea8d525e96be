"""Write the dataset as a folder that is ready to be published: tables, trajectories, a card, a report.

Secrets are masked once more before others see it, and what was found is counted.
"""

from __future__ import annotations

import json
import re
import time
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Struct, field

from segue import __version__
from segue.domain.errors import UsageError
from segue.domain.run import TASK_RUNS, Run, RunState
from segue.parts.lab.dataset.atif import to_atif, to_lines
from segue.parts.lab.dataset.instances import LeftOut, read_instances, to_prediction
from segue.parts.lab.dataset.provenance import PROVENANCE, describe_provenance, read_versions
from segue.parts.lab.dataset.trajectory import Trajectory, read_trajectories
from segue.parts.lab.dataset.verify import VerifiedInstance, complete, pack_base
from segue.store.export import write_rows
from segue.store.flat import FLAT_TABLES
from segue.system.files import check_way, write_atomic
from segue.system.redact import MARK, Redactor

if TYPE_CHECKING:
    from segue.store.store import Store


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
            mails=total.get("mail_addresses_masked", 0),
            left_out="\n".join(f"- {one['what']}: {one['why']}" for one in made.left_out[:_LISTED])
            or "Nothing.",
            year=time.strftime("%Y"),
            licence=_UNSTATED if made.licence == "unknown" else f"`{made.licence}`",
        )
    )
    write_atomic(place, ("\n".join(header) + "\n\n" + body).encode())


_KEPT_MAIL = re.compile(r"@example\.(?:com|org|net)$|\.(?:invalid|example|test)$|^git@|noreply", re.I)
"""Addresses that are nobody's: of documentation, of hosts, of robots."""
_HOMES = re.compile(r"/(?:home|Users)/[^/\s\"':]+")
_REMEMBERED = 4 * 1024**2
"""Characters of texts that are remembered while they are cleaned."""
_MAIL = re.compile(r"\b[\w.+-]{1,64}@[\w-]{1,63}(?:\.[\w-]{2,63}){1,4}\b")


class Cleaner:
    """Cleans values and counts what it found, by the place they are written to."""

    def __init__(self, redactor: Redactor, home: Path | None = None, places: Sequence[str] = ()) -> None:
        """Know the user's home, and the folders in which runs worked.

        The rule: a folder of a run becomes `/repo`, the home folder `~`, other people's `/home/user`, a mail
        address `person-N@redacted.invalid`, the same one each time. Other paths stay: they are the system's.
        """
        self._redactor = redactor
        home = home or Path.home()
        self._home = str(home) if len(home.parts) > 2 else ""
        deep = {place.rstrip("/") for place in places if len(Path(place).parts) > 2}
        self._places = sorted(deep, key=len, reverse=True)
        self._people: dict[str, str] = {}
        self._seen: dict[str, tuple[str, Counter[str]]] = {}
        self._room = _REMEMBERED
        self.found: defaultdict[str, Counter[str]] = defaultdict(Counter)

    def clean(self, place: str, value: Any) -> Any:
        """Return a value as it may be published; lists and objects with all that is in them."""
        if isinstance(value, str):
            return self._text(self.found[place], value)
        if isinstance(value, dict):
            return {name: self.clean(place, one) for name, one in value.items()}
        if isinstance(value, list | tuple):
            return [self.clean(place, one) for one in value]
        return value

    def _text(self, counts: Counter[str], text: str) -> str:
        """Clean a text; the same one is in tables, trajectories and traces, and is looked at once."""
        known = self._seen.get(text)
        if known is None:
            found: Counter[str] = Counter()
            known = self._look(found, text), +found
            self._room -= len(text)
            if self._room < 0:
                self._seen.clear()
                self._room = _REMEMBERED
            self._seen[text] = known
        if known[1]:
            counts.update(known[1])
        return known[0]

    def _look(self, counts: Counter[str], text: str) -> str:
        masked = self._redactor.text(text)
        counts["secrets_masked_now"] += masked != text
        counts["masked_before"] += text.count(MARK)
        for place in self._places:
            if place in masked:
                counts["folders_of_runs"] += masked.count(place)
                masked = masked.replace(place, "/repo")
        if self._home and self._home in masked:
            counts["home_folders"] += masked.count(self._home)
            masked = masked.replace(self._home, "~")
        masked, others = _HOMES.subn("/home/user", masked) if "/" in masked else (masked, 0)
        counts["home_folders"] += others
        if "@" in masked:
            masked = _MAIL.sub(lambda found: self._hide(counts, found[0]), masked)
        return masked

    def _hide(self, counts: Counter[str], address: str) -> str:
        if _KEPT_MAIL.search(address):
            counts["mail_addresses_kept"] += 1
            return address
        counts["mail_addresses_masked"] += 1
        return self._people.setdefault(address.casefold(), f"person-{len(self._people) + 1}@redacted.invalid")

    def report(self) -> dict[str, Any]:
        """Return what was found, by place and in total."""
        total = sum(self.found.values(), Counter[str]())
        places = {place: dict(counts) for place, counts in self.found.items() if any(counts.values())}
        return {"total": dict(total), "places": places}


_LISTED = 20
CARD = "README.md"
REPORT = "redaction.json"
_INSTANCE = (
    *("repo", "instance_id", "base_commit", "patch", "test_patch", "problem_statement", "hints_text"),
    *("created_at", "version", "FAIL_TO_PASS", "PASS_TO_PASS", "environment_setup_commit", "test_commands"),
    *("base_archive", "environment", "prompt", "proof_level", "model_name_or_path"),
)


class Publication(Struct):
    """What was written, for the card and for whoever asked."""

    name: str
    licence: str
    tables: dict[str, int] = field(default_factory=dict)
    runs: int = 0
    trajectories: int = 0
    instances: int = 0
    left_out: list[dict[str, str]] = field(default_factory=list)
    """What is not part of it, and why."""
    redaction: dict[str, Any] = field(default_factory=dict)


ENDED = (RunState.DONE, RunState.FAILED, RunState.STOPPED, RunState.NEEDS_HUMAN)
"""States of runs that nobody works on: only these are published."""


def choose_runs(store: Store, names: Sequence[str]) -> tuple[list[Run], list[dict[str, str]]]:
    """Return the runs that are meant (those named, or all with tasks) and have ended; and the others."""
    if not names:
        found = {run.id: run for run in store.runs(kinds=TASK_RUNS)}
    else:
        known = {name: store.run(name) for name in names}
        missing = [name for name, run in known.items() if run is None]
        if missing:
            raise UsageError(f"There is no run {', '.join(missing)}.", hint="`segue status` lists the runs.")
        found = {run.id: run for run in known.values() if run is not None}
    runs = sorted(found.values(), key=lambda run: run.id)
    going = [{"what": f"run {run.id}", "why": f"it is {run.state}"} for run in runs if run.state not in ENDED]
    return [run for run in runs if run.state in ENDED], going


def read_point(store: Store, runs: Sequence[Run]) -> dict[str, int]:
    """Return how far the journal of each run goes: a publication is of this point."""
    last = store.query("SELECT run_id, max(seq) AS seq FROM orchestrator_events GROUP BY run_id")
    wanted = {run.id for run in runs}
    return {str(row["run_id"]): int(row["seq"]) for row in last if row["run_id"] in wanted}


async def publish(
    store: Store,
    runs: Sequence[Run],
    folder: Path,
    made: Publication,
    cleaner: Cleaner,
    verify: Verify | None,
) -> Publication:
    """Write everything; a folder that was published before is written again, another one is refused.

    Without `verify` there are no instances: only those that hold are published.
    """
    prepare(folder)
    ids, point = [run.id for run in runs], read_point(store, runs)
    made.runs = len(ids)
    for name, table in FLAT_TABLES.items():
        place = f"data/{name}.parquet"
        columns = [(column.name, column.type) for column in table.columns]
        batches = (cleaner.clean(place, batch) for batch in store.table(table.view, as_text=True, runs=ids))
        made.tables[name] = write_file(folder / place, columns, batches)
    rows = await _write_instances(store, runs, folder, made, cleaner, verify) if verify else []
    made.tables["instances"] = write_file(
        folder / "data/instances.parquet", [(name, "text") for name in _INSTANCE], [rows] if rows else []
    )
    made.instances = len(rows)
    _write_lines(folder / "predictions.jsonl", map(to_prediction, rows))
    for run in runs:
        versions = read_versions(store, run.id)
        for found in read_trajectories(store, run.id):
            write_trajectory(folder, found, cleaner, versions)
            made.trajectories += 1
    if read_point(store, runs) != point:
        raise UsageError(
            "A run continued, or was labelled, while it was written.",
            kept=f"{folder} is incomplete: do not publish it.",
            hint="Run the same command again",
        )
    facts = describe_provenance(store, runs, point, made)
    write_atomic(
        folder / PROVENANCE, (json.dumps(cleaner.clean(PROVENANCE, facts), indent=2) + "\n").encode()
    )
    made.redaction = cleaner.report()
    write_atomic(folder / REPORT, (json.dumps(made.redaction, indent=2) + "\n").encode())
    write_card(folder / CARD, made)
    return made


Verify = Callable[[dict[str, Any], Path], Awaitable[VerifiedInstance]]


async def _write_instances(
    store: Store, runs: Sequence[Run], folder: Path, made: Publication, cleaner: Cleaner, verify: Verify
) -> list[dict[str, Any]]:
    """Write the bases, run every candidate again from what was written, and return those that hold."""
    rows = []
    for run in runs:
        async for found in read_instances(store, run):
            if isinstance(found, LeftOut):
                made.left_out.append({"what": f"instance {found.instance}", "why": found.why})
                continue
            row = cleaner.clean("data/instances.parquet", found.row)
            place = folder / str(row["base_archive"])
            if not place.exists():
                await pack_base(found.objects, found.base, place, cleaner.clean)
            verified = await verify(row, folder)
            if verified.holds:
                rows.append(complete(row, verified))
            else:
                made.left_out.append({"what": f"instance {verified.instance}", "why": verified.problem})
    wanted = {str(row["base_archive"]) for row in rows}
    for place in (folder / "bases").glob("*.tar.gz"):
        if f"bases/{place.name}" not in wanted:
            place.unlink()
    return rows


def write_trajectory(
    folder: Path, found: Trajectory, cleaner: Cleaner, versions: Mapping[str, str] | None = None
) -> None:
    """Write one attempt in both formats."""
    name = found.name.replace("/", "_").replace(" ", "-")
    document = cleaner.clean("trajectories", to_atif(found, versions))
    place = folder / "trajectories" / f"{name}.json"
    place.parent.mkdir(parents=True, exist_ok=True)
    text = msgspec.json.format(json.dumps(document).encode(), indent=1)
    write_atomic(place, text + b"\n", durable=False)
    _write_lines(
        folder / "traces" / f"{name}.jsonl", (cleaner.clean("traces", line) for line in to_lines(found))
    )


def write_file(place: Path, columns: Any, batches: Any) -> int:
    """Write a Parquet file and return its rows."""
    place.parent.mkdir(parents=True, exist_ok=True)
    with place.open("wb") as file:
        return write_rows("parquet", columns, batches, file)


def _write_lines(place: Path, lines: Iterator[dict[str, Any]]) -> None:
    place.parent.mkdir(parents=True, exist_ok=True)
    write_atomic(place, "".join(json.dumps(line) + "\n" for line in lines).encode(), durable=False)


def prepare(folder: Path) -> None:
    """Make the folder; what an earlier call wrote is removed, so that nothing old is published."""
    if folder.exists() and (
        not folder.is_dir() or (any(folder.iterdir()) and not (folder / REPORT).exists())
    ):
        raise UsageError(
            f"{folder} is not empty, and was not written by this command.", hint="Name a new folder."
        )
    folder.mkdir(parents=True, exist_ok=True)
    for place in (folder, *folder.iterdir()):
        check_way(place)
    write_atomic(folder / REPORT, b"{}\n")  # so that a call after an interrupted one knows the folder
    for part, pattern in (
        ("data", "*.parquet"),
        ("trajectories", "*.json"),
        ("traces", "*.jsonl"),
        ("bases", "*.tar.gz"),
    ):
        for old in (folder / part).glob(pattern):
            old.unlink()
