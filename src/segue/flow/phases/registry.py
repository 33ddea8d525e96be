"""The registry of phases: one file per phase, and nothing else in the code enumerates them."""

from __future__ import annotations

from segue.flow.actions.choose import CHOICE
from segue.flow.actions.diagnose import DIAGNOSTIC
from segue.flow.actions.search import SEARCH
from segue.flow.independent import DISPUTE
from segue.flow.merging import MERGE
from segue.flow.mutants import MUTANTS
from segue.flow.phase import Phase
from segue.flow.phases.check import CHECK, CONTEST
from segue.flow.phases.execute import EXECUTE
from segue.flow.phases.independent import INDEPENDENT
from segue.flow.phases.outline import OUTLINE, REPLAN
from segue.flow.phases.plan import PLAN
from segue.flow.phases.resolve import RESOLVE
from segue.flow.phases.review import ADDRESS, REVIEW
from segue.flow.phases.verify import VERIFY

PHASES: dict[str, Phase] = {
    phase.name: phase
    for phase in (
        *(OUTLINE, PLAN, EXECUTE, CHECK, REVIEW, ADDRESS, VERIFY, SEARCH, DIAGNOSTIC, RESOLVE, REPLAN),
        *(INDEPENDENT, CONTEST, DISPUTE, MUTANTS, MERGE, CHOICE),
    )
}
"""Every phase by name: first those that most tasks go through, in their order."""
