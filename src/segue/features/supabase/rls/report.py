"""The report of the row level security check, for people, programs and judges."""

from __future__ import annotations

from enum import StrEnum
from typing import Any

from msgspec import Struct, to_builtins

from segue.domain.proof import CheckResult

COMMAND = "rls check"

_KEPT_LINES = 400
_KEPT_LINE = 500


class RlsLevel(StrEnum):
    """How bad a finding is; only errors fail the check."""

    ERROR = "error"
    WARNING = "warning"
    NOTICE = "notice"


class RlsFinding(Struct, frozen=True):
    """One thing that people should know."""

    level: RlsLevel
    subject: str
    """The subject: `public.todos`, or a file and a line."""
    message: str


class RowPolicy(Struct, frozen=True):
    """One policy as the catalogue has it."""

    name: str
    command: str
    roles: tuple[str, ...]
    using: str | None
    with_check: str | None
    permissive: bool = True

    def __str__(self) -> str:
        kind = "" if self.permissive else " restrictive"
        using = "" if self.using is None else f" using ({self.using})"
        check = "" if self.with_check is None else f" with check ({self.with_check})"
        whole = f'"{self.name}"{kind} for {self.command.lower()} to {", ".join(self.roles)}{using}{check}'
        return " ".join(whole.split())


class Attempt(Struct, frozen=True):
    """One thing that was tried."""

    who: str
    """`anon` or `user A`."""
    what: str
    """`read`, `insert`, `update`, `delete`, `give away`, or `read own`."""
    sql: str
    allowed: bool | None
    """None if that is unclear."""
    said: str

    def __str__(self) -> str:
        result = {True: "allowed", False: "refused", None: "unclear"}[self.allowed]
        return f"{self.who}, {self.what}: {self.sql} → {result} ({self.said})"


class TableReport(Struct, frozen=True):
    """One table of an exposed schema."""

    schema: str
    name: str
    enabled: bool
    """True if row level security is on."""
    forced: bool
    policies: tuple[RowPolicy, ...]
    owned_by: tuple[str, ...]
    """The columns that say whose a row is; empty when nothing does."""
    attempts: tuple[Attempt, ...]
    not_tried: str = ""
    """Why nothing could be tried."""

    @property
    def title(self) -> str:
        """Its name with its schema."""
        return f"{self.schema}.{self.name}"


class RlsReport(Struct, frozen=True):
    """The whole check."""

    tables: tuple[TableReport, ...] = ()
    findings: tuple[RlsFinding, ...] = ()
    migrations: tuple[str, ...] = ()
    """The files that were applied."""
    server: str = ""
    not_run: str = ""
    """Why the check did not take place or did not end."""
    hint: str = ""
    demanded: bool = False

    @property
    def passed(self) -> bool:
        """True if the check ran and found no error."""
        return not self.not_run and not self.errors()

    @property
    def decides(self) -> bool:
        """True if a verdict may rely on it: it ran, found an error, or the settings demand it."""
        return not self.not_run or self.demanded or bool(self.errors())

    def errors(self) -> list[RlsFinding]:
        """The findings that fail the check."""
        return [finding for finding in self.findings if finding.level is RlsLevel.ERROR]

    def as_json(self) -> dict[str, Any]:
        """Everything, for programs and for the store."""
        return {**to_builtins(self), "passed": self.passed}

    def as_check(self) -> CheckResult:
        """The report as evidence; the findings stand last, where a cut does not reach them."""
        code: int | None = 0 if self.passed else 1
        if code and self.not_run and not self.errors():
            code = None
        return CheckResult(COMMAND, code, "\n".join(self.lines()) + "\n")

    def lines(self) -> list[str]:
        """The report for people."""
        tables = [line for table in self.tables for line in _table(table)]
        if len(tables) > _KEPT_LINES:
            tables = [*tables[:_KEPT_LINES], f"… {len(tables) - _KEPT_LINES} more lines about tables"]
        found = [f"{f.level.upper()} {f.subject}: {f.message}" for f in _mildest_first(self.findings)]
        if len(found) > _KEPT_LINES:
            found = [f"… {len(found) - _KEPT_LINES} milder findings", *found[-_KEPT_LINES:]]
        ended = [f"Not run: {self.not_run}", *([f"Next: {self.hint}"] if self.hint else [])]
        count = f"{len(self.tables)} tables, {len(self.errors())} errors"
        last = ended if self.not_run else [f"{'Passed' if self.passed else 'Failed'}: {count}."]
        return [line[:_KEPT_LINE] for line in [*tables, *found, *last]]


def _table(table: TableReport) -> list[str]:
    state = "on" if table.enabled else "OFF"
    whose = f"; rows belong to {', '.join(table.owned_by)}" if table.owned_by else ""
    lines = [f"{table.title}: row level security {state}{' (forced)' if table.forced else ''}{whose}"]
    lines += [f"  policy {policy}" for policy in table.policies]
    lines += [f"  {attempt}" for attempt in table.attempts]
    return [*lines, f"  not tried: {table.not_tried}"] if table.not_tried else lines


def _mildest_first(findings: tuple[RlsFinding, ...]) -> list[RlsFinding]:
    return sorted(findings, key=lambda finding: list(RlsLevel).index(finding.level), reverse=True)
