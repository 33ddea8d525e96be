"""Whether a task asks for no more than comments, documents, tests or files that nothing reads.

What of a change a program could notice is measured (`proof/scope.py`). Where that is nothing, only the words
of the task tell honest work from an agent that wrote a comment instead of a function.
"""

from __future__ import annotations

import re

from segue.domain.kind_words import REFERS_TO, words
from segue.domain.pattern import pattern
from segue.domain.task import Task, TaskKind
from segue.proof.scope import ChangePart, Scope

_NAMED = {
    ChangePart.COMMENTS: words(
        r"comment\w* | docstrings? | document | documentation | docs? | explain | typos? | spelling | wording"
        r" | headers? | licen[sc]e | copyright | (?:re)?format\w* | layout | indent\w* | whitespace | lint\w*"
        r" | code style | todos?"
    ),
    ChangePart.DOCS: words(
        r"document | documentation | docs? | describe | explain | readme | changelog | guides? | tutorial"
        r" | manual | typos? | spelling | wording | translate | release notes"
    ),
    ChangePart.TESTS: words(r"tests? | specs? | test cases? | coverage | fixtures?"),
    ChangePart.UNREAD: words(
        r"config\w* | settings? | ci | workflows? | pipelines? | licen[sc]e | ignore | editor | container"
    ),
    ChangePart.REMOVED: words(r"dead | unused | obsolete | superfluous | redundant"),
}
"""How tasks call what they ask for."""
_CLAUSE = pattern(r"[.;:!?]\s|\n|,?\s+(?:and|then)\s+")
_NAME = pattern(r"\.?\w[\w.-]*\w")
_BUILDS = words(
    "add | implement | build | create | fix | handle | support | make | change | rename | remove | delete"
    " | replace | refactor | return | use | extend | extract | move | port | introduce | expose | allow | let"
    " | compute | parse | validate | send | store | load | print | show | raise | write | set | give",
    before=r"^\W*",
)
"""How clauses begin that ask for something."""


def asks_for_no_more(task: Task, scope: Scope) -> bool:
    """Return whether what was changed is all that the task asks for, where no test could tell it."""
    if not scope.untestable:
        return False
    if task.kind is TaskKind.DOCS:
        return True
    if task.kind is not TaskKind.BUILD:
        return False
    clauses = [clause for clause in _CLAUSE.split(f"{task.title}\n{task.text}") if clause.strip()]
    about = [clause for clause in clauses if _is_about(clause, scope)]
    others = [clause for clause in clauses if clause not in about and _BUILDS.search(clause)]
    return bool(about) and not others


def _is_about(clause: str, scope: Scope) -> bool:
    """Return whether a clause names what was changed, and not only as a place to read: kind or files."""
    found = [one for part in scope.parts for one in _NAMED[part].finditer(clause)]
    if any(re.search(rf"\b{re.escape(name)}\b", clause) for name in scope.removed):
        return True
    files = {path.rpartition("/")[2].lower() for path in scope.paths}
    if ChangePart.UNREAD in scope.parts:  # documents and tests are named after what they are about
        files |= {name for path in scope.paths for name in re.findall(r"[a-z]{2,}", path.lower())}
    if {ChangePart.COMMENTS, ChangePart.REMOVED}.isdisjoint(scope.parts):
        found += [one for one in _NAME.finditer(clause) if one[0].lower() in files]
    return any(not REFERS_TO.search(clause[: one.start()]) for one in found)
