"""Draws conclusions from what was seen and tried; only this module decides how severe a finding is."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from segue.features.supabase.rls.attempts import RECURSION
from segue.features.supabase.rls.catalog import ApiFunction, CatalogView
from segue.features.supabase.rls.report import Attempt, RlsFinding, RlsLevel, RowPolicy, TableReport

_DOES = {
    "read": "can read user B's row",
    "insert": "can insert rows in user B's name",
    "update": "can change user B's row",
    "delete": "can delete user B's row",
    "give away": "can give rows away to user B: the UPDATE policy's WITH CHECK does not check the owner",
}
_ANYBODYS = {"read": "can read rows", "insert": "can insert rows", "update": "can change rows"} | {
    "delete": "can delete rows"
}


def about_table(table: TableReport) -> list[RlsFinding]:
    """Everything there is to say about one table."""
    return [RlsFinding(level, table.title, message) for level, message in _about(table)]


def _about(table: TableReport) -> Iterator[tuple[RlsLevel, str]]:
    allowed = [a for a in table.attempts if a.allowed and a.what != "read own"]
    if not table.enabled:
        yield _off(table, allowed)
        return
    if table.not_tried:
        yield RlsLevel.WARNING, f"the policies could not be tried: {table.not_tried}"
    broken = [attempt for attempt in table.attempts if attempt.allowed is None]
    if broken:
        yield _broken(broken[0])
    for attempt in allowed:
        yield _hole(table, attempt)
    if not table.policies:
        yield (
            RlsLevel.WARNING,
            "row level security is on, but there is no policy: only the service role gets in",
        )
    elif table.owned_by and any(a.what == "read own" and a.allowed is False for a in table.attempts):
        yield RlsLevel.WARNING, "user A cannot read his own row"
    for policy in table.policies:
        if "user_metadata" in f"{policy.using} {policy.with_check}":
            yield RlsLevel.WARNING, f'policy "{policy.name}" trusts user_metadata, which users can change'


def _off(table: TableReport, allowed: list[Attempt]) -> tuple[RlsLevel, str]:
    if not allowed and table.attempts:
        return RlsLevel.NOTICE, "row level security is off; the API's roles have no rights to the table"
    if not allowed:
        why = f" (not tried: {table.not_tried})" if table.not_tried else ""
        return RlsLevel.ERROR, f"row level security is off: everybody who has the anon key can use it{why}"
    can = list(dict.fromkeys(f"{a.who} can {a.what}" for a in allowed if a.what != "give away"))
    return RlsLevel.ERROR, f"row level security is off: {', '.join(can)}; tried: {allowed[-1].sql}"


def _broken(attempt: Attempt) -> tuple[RlsLevel, str]:
    why = "its policies refer to the table itself" if attempt.said.startswith(RECURSION) else "it fails"
    return RlsLevel.ERROR, f"the table cannot be used, {why}: {attempt.said}; tried: {attempt.sql}"


def _hole(table: TableReport, attempt: Attempt) -> tuple[RlsLevel, str]:
    does = _DOES if table.owned_by else _ANYBODYS
    message = f"{attempt.who} {does.get(attempt.what, attempt.what)}; tried: {attempt.sql} → {attempt.said}"
    on_purpose = _on_purpose(table.policies, attempt)
    if on_purpose is not None:
        return RlsLevel.NOTICE, f"{message}; on purpose, says policy {on_purpose}"
    if not table.owned_by and (attempt.what == "insert" or attempt.who != "anon"):
        # Whose the rows are cannot be seen: forms that anybody may fill in, lists that all keep together.
        return (RlsLevel.WARNING if attempt.what != "read" else RlsLevel.NOTICE), message
    return RlsLevel.ERROR, message


def _on_purpose(policies: tuple[RowPolicy, ...], attempt: Attempt) -> RowPolicy | None:
    """A policy for SELECT alone that says `using (true)` means what it says."""
    role = "anon" if attempt.who == "anon" else "authenticated"
    if attempt.what != "read":
        return None
    for policy in policies:
        open_to = {"public", role} & set(policy.roles)
        if policy.permissive and policy.command == "SELECT" and policy.using == "true" and open_to:
            return policy
    return None


def about_view(
    view: CatalogView, seen: Mapping[str, int | None], below: Mapping[str, bool]
) -> list[RlsFinding]:
    """A view that runs with its owner's rights shows what policies hide.

    `seen`: rows that `anon` and `user A` get through it. `below`: whether each of them can read every table
    with row level security that it reads.
    """
    if not view.guarded or view.invoker:
        return []
    kind = "materialized view" if view.materialized else "view"
    names = ", ".join(view.guarded)
    shown = [who for who, count in seen.items() if count and not below[who]]
    fix = "" if view.materialized else "; say `with (security_invoker = true)`"
    if shown:
        message = f"the {kind} shows rows of {names} past their policies to {' and '.join(shown)}{fix}"
        return [RlsFinding(RlsLevel.ERROR, view.title, message)]
    if all(count is None for count in seen.values()):
        return []
    return [
        RlsFinding(RlsLevel.WARNING, view.title, f"the {kind} reads {names} with its owner's rights{fix}")
    ]


def about_function(function: ApiFunction) -> list[RlsFinding]:
    """A function with its owner's rights is a door that no policy closes."""
    if not function.definer:
        return []
    who = " and ".join(function.roles)
    if function.fixed_path:
        message = f"SECURITY DEFINER: no policy binds it, {who} may call it"
        return [RlsFinding(RlsLevel.NOTICE, function.title, message)]
    message = f"SECURITY DEFINER without a fixed search_path, and {who} may call it"
    return [RlsFinding(RlsLevel.WARNING, function.title, message)]


def about_steps(steps: Iterable[tuple[str, Attempt]]) -> list[RlsFinding]:
    """Steps that open what is another's: each is a leak, as it was taken and its effect was seen."""
    found: dict[tuple[str, str], RlsFinding] = {}
    for title, attempt in steps:
        does = _DOES.get(attempt.what, f"can {attempt.what}")
        message = f"{attempt.who} {does}; tried: {attempt.sql} → {attempt.said}"
        found.setdefault((title, attempt.what), RlsFinding(RlsLevel.ERROR, title, message))
    return list(found.values())
