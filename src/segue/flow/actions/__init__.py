"""What follows from a verdict: the policy table. Each action is its own small file."""

from __future__ import annotations

from segue.domain.verdict import Action
from segue.flow.actions.diagnose import diagnose
from segue.flow.actions.modify import modify
from segue.flow.actions.retry import retry
from segue.flow.actions.search import search
from segue.flow.actions.skip import skip
from segue.flow.resolution import Handler

ACTIONS: dict[Action, Handler] = {
    Action.RETRY: retry,
    Action.WEB_SEARCH: search,
    Action.RUN_DIAGNOSTIC: diagnose,
    Action.SKIP: skip,
    Action.MODIFY_PLAN: modify,
}
"""Verdict → action. PROCEED needs none; what is not in the table counts as RETRY."""

COUNTED = (Action.RETRY, Action.WEB_SEARCH, Action.RUN_DIAGNOSTIC)
"""The actions that use up the resolutions of a task; looking at the plan again is counted apart."""
