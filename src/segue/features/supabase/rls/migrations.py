"""Applies a project's migrations, statement by statement, and says where one fails.

Statements are told apart as Postgres would, with the line on which each begins.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import psycopg
from msgspec import Struct, field
from psycopg import Connection, Error
from psycopg.pq import TransactionStatus

from segue.features.supabase.rls.extensions import asked_for
from segue.features.supabase.rls.options import FOLDER
from segue.features.supabase.rls.report import RlsFinding, RlsLevel
from segue.features.supabase.rls.scratch import Scratch, words_of
from segue.system.beneath import read_below

_TOKEN = re.compile(
    r"""
      (?P<line>--[^\n]*)
    | (?P<block>/\*)
    | (?P<escaped>(?<![A-Za-z0-9_$])[eE]'[^'\\]*(?:(?:\\.|'')[^'\\]*)*(?:'|\Z))
    | (?P<string>'[^']*(?:''[^']*)*(?:'|\Z))
    | (?P<name>"[^"]*(?:""[^"]*)*(?:"|\Z))
    | (?P<dollar>(?<![A-Za-z0-9_$])\$(?:[A-Za-z_\x80-\uffff][A-Za-z0-9_\x80-\uffff]*)?\$)
    | (?P<word>[A-Za-z_][A-Za-z0-9_$]*)
    | (?P<end>;)
    """,
    re.VERBOSE | re.DOTALL,
)
_COMMENT = re.compile(r"/\*|\*/")
_BLANK = re.compile(r"(?:\s+|--[^\n]*(?:\n|\Z))+")


class Statement(Struct, frozen=True):
    """One statement without its semicolon."""

    text: str
    line: int


def split(sql: str) -> Iterator[Statement]:
    """The statements of a file, in order."""
    start, counted, line = 0, 0, 1
    for end in _ends(sql):
        begin = min(_after_comments(sql, start), end)
        line += sql.count("\n", counted, begin)
        counted, start = begin, end + 1
        text = sql[begin:end].strip()
        if text:
            yield Statement(text, line)


def _after_comments(sql: str, place: int) -> int:
    """The place where the statement itself begins."""
    while True:
        blank = _BLANK.match(sql, place)
        after = blank.end() if blank else place
        if sql.startswith("/*", after):
            after = _comment_end(sql, after)
        if after == place:
            return place
        place = after


def _ends(sql: str) -> Iterator[int]:
    """Yield the places of the semicolons that end a statement, and the end of the text."""
    place, depth, last = 0, 0, ""
    while found := _TOKEN.search(sql, place):
        kind, place = found.lastgroup, found.end()
        if kind == "block":
            place = _comment_end(sql, found.start())
        elif kind == "dollar":
            close = sql.find(found.group(), place)
            place = len(sql) if close < 0 else close + len(found.group())
        elif kind == "word":
            word = found.group().lower()
            depth = _depth(depth, last, word)
            last = word
        elif kind == "end" and not depth:
            yield found.start()
    yield len(sql)


def _depth(depth: int, last: str, word: str) -> int:
    """Count how deep we are in a function's body in standard SQL: BEGIN ATOMIC … END, CASE … END inside."""
    if word == "atomic" and last == "begin":
        return 1
    if depth and word == "case" and last != "end":
        return depth + 1
    return depth - 1 if depth and word == "end" else depth


def _comment_end(sql: str, start: int) -> int:
    """Comments of Postgres nest."""
    depth = 0
    for mark in _COMMENT.finditer(sql, start):
        depth += 1 if mark.group() == "/*" else -1
        if depth == 0:
            return mark.end()
    return len(sql)


_NAME = re.compile(r"\d+_.*\.sql")
_LARGEST = 64 * 1024 * 1024
_OUTSIDE = "skipped: it is a link to a file outside of the project"
_MAKES = re.compile(r"(?:create|alter)\s+(?:table|policy|view|function)\b", re.IGNORECASE)
_SAID = 400
_ROWS = re.compile(r"\(*\s*(?:select|values|table|show|explain|fetch|call)\b", re.IGNORECASE)
_WRITES = re.compile(r"\b(?:insert|update|delete|merge)\b", re.IGNORECASE)
_RETURNING = re.compile(r"\breturning\b", re.IGNORECASE)
_WITH = re.compile(r"with\b", re.IGNORECASE)
_TO_POSTGRES = re.compile(r"\bowner\s+to\s+\"?postgres\"?\s*\Z", re.IGNORECASE)
_INDEX = re.compile(r"create\s+(?:unique\s+)?index\b", re.IGNORECASE)


class Migration(Struct, frozen=True):
    """One file."""

    name: str
    statements: tuple[Statement, ...]


class Applied(Struct):
    """How applying the migrations ended."""

    files: list[str] = field(default_factory=list)
    findings: list[RlsFinding] = field(default_factory=list)


def read_migrations(project: Path) -> tuple[list[Migration], list[RlsFinding]]:
    """The files that Supabase would apply, in its order, and what is wrong with the others."""
    found: list[Migration] = []
    skipped: list[tuple[Path, str]] = []
    root = project.resolve()
    folder = project / FOLDER
    for path in sorted(folder.rglob("*"), key=lambda path: path.relative_to(folder)):
        problem = _unfit(path, root)
        if problem:
            skipped.append((path, problem))
        elif path.suffix == ".sql" and path.is_file():
            found.append(Migration(path.name, tuple(split(_read(root, path)))))
    applies = any(migration.statements for migration in found)
    return found, [_skipped(path, root, why, applies) for path, why in skipped]


def _read(root: Path, path: Path) -> str:
    # A NUL would end the text for the driver, and hide what follows.
    return read_below(root, path, _LARGEST).decode("utf-8-sig", "replace").replace("\0", "\ufffd")


def _unfit(path: Path, root: Path) -> str:
    if not path.resolve().is_relative_to(root):
        return _OUTSIDE
    if path.suffix.lower() != ".sql" or not path.is_file():
        return ""
    if path.parent.name != FOLDER.name or not _NAME.fullmatch(path.name):
        return "skipped, as Supabase does: it applies only supabase/migrations/<timestamp>_name.sql"
    return "skipped: it is larger than 64 MB" if path.stat().st_size > _LARGEST else ""


def _skipped(path: Path, root: Path, why: str, applies: bool) -> RlsFinding:
    """Judge a file that is not applied: tables that it was meant to make are in no database.

    It fails the check if it is a migration by its number, or if the project has no other.
    """
    name = str(path.relative_to(root))
    if why is _OUTSIDE or path.stat().st_size > _LARGEST or not any(split(_read(root, path))):
        return RlsFinding(RlsLevel.NOTICE, name, why)
    is_meant = not applies or (path.name[0].isdigit() and path.parent.name == FOLDER.name)
    if is_meant:
        return RlsFinding(RlsLevel.ERROR, name, f"{why}; nothing in it was tried. Rename it")
    makes = any(_MAKES.match(statement.text) for statement in split(_read(root, path)))
    return RlsFinding(RlsLevel.WARNING if makes else RlsLevel.NOTICE, name, why)


def apply(scratch: Scratch, session: Connection[Any], migrations: Sequence[Migration]) -> Applied:
    """Apply the files until one fails."""
    done = Applied()
    for migration in migrations:
        for statement in migration.statements:
            try:
                _run(scratch, session, statement.text)
            except psycopg.Error as error:
                if _only_an_index(scratch, statement.text, error):
                    done.findings.append(_failure(scratch, migration, statement, error, RlsLevel.NOTICE))
                    continue
                done.findings.append(_failure(scratch, migration, statement, error, RlsLevel.ERROR))
                return done
        done.files.append(migration.name)
        done.findings += _closed(session, migration)
    return done


def _closed(session: Connection[Any], migration: Migration) -> list[RlsFinding]:
    """End a transaction that the file has left open, which would hide its work and keep its locks."""
    if session.info.transaction_status is TransactionStatus.IDLE:
        return []
    session.execute("COMMIT")
    message = "the file begins a transaction and does not end it"
    return [RlsFinding(RlsLevel.WARNING, str(FOLDER / migration.name), message)]


def _run(scratch: Scratch, session: Connection[Any], sql: str) -> None:
    extension = asked_for(sql)
    if extension is not None or (scratch.owner != "postgres" and _TO_POSTGRES.search(sql)):
        return  # extensions are there already, or nowhere
    text = sql.encode("utf-8", "replace")
    if not _gives_rows(sql):
        session.execute(text)
        return
    with session.cursor() as cursor:
        # One row at a time: nobody wants them, and there may be too many to hold.
        for _ in cursor.stream(text):
            pass


def _gives_rows(sql: str) -> bool:
    if _ROWS.match(sql):
        return not re.search(r"\binto\b", sql, re.IGNORECASE)
    return bool(_WITH.match(sql)) and (not _WRITES.search(sql) or bool(_RETURNING.search(sql)))


def _only_an_index(scratch: Scratch, sql: str, error: Error) -> bool:
    """An index that needs an extension which the scratch server lacks has no part in who may see what."""
    return bool(scratch.missing and _INDEX.match(sql) and (error.sqlstate or "").startswith("42"))


def _failure(
    scratch: Scratch, migration: Migration, statement: Statement, error: Error, level: RlsLevel
) -> RlsFinding:
    place = error.diag.statement_position
    line = statement.line + (statement.text[: int(place) - 1].count("\n") if place else 0)
    detail = f" ({error.diag.message_detail[:_SAID]})" if error.diag.message_detail else ""
    lacking = f"; the scratch server lacks {', '.join(scratch.missing)}" if scratch.missing else ""
    shown = " ".join(statement.text.split())[:120]
    return RlsFinding(
        level,
        f"{FOLDER / migration.name}:{line}",
        f"the migration fails: {words_of(error)}{detail}{lacking} in: {shown}",
    )
