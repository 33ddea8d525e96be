"""The flat tables of the dataset: their columns, types and meanings. The views are in `views.sql`."""

from __future__ import annotations

from typing import Literal, cast

from msgspec import Struct

ColumnType = Literal["text", "integer", "real", "boolean", "instant", "json"]

PREFIX = "segue_"
"""How the names of the views begin, beside the journal: no table of the user's is called so."""


class DatasetColumn(Struct, frozen=True):
    """One column: its name, the type of its values, and what they mean."""

    name: str
    type: ColumnType
    meaning: str


class DatasetTable(Struct, frozen=True):
    """One flat table."""

    name: str
    about: str
    columns: tuple[DatasetColumn, ...]

    @property
    def view(self) -> str:
        """The name of its view in the database."""
        return PREFIX + self.name


_STEP = """
run_id text: the run
seq integer: its number in the run's log
step text: the step it belongs to, such as `task/3/execute/2`
gen integer: which generation of the step; a redo begins another
task text: the task's key
"""
_WHO = """
agent text: who was launched; of a verdict the judge
model text: the model that was asked for
"""
_AT = """
at instant: when
"""

_TEXT = {
    "runs": """one row per run
run_id text: when it began, and four random digits
kind text: `plan`, `feature`, `build`, `tasks`, `trial`, `conversation`, `inbox` or `model_call`
state text: its state, such as `done`
note text: why
source_kind text: the kind of source
source text: what was run
repo text: where
flow text: its flow
agent text: the agent of the run
model text: the model that was asked for
experiment text: the experiment that it is a trial of
arm text: the arm of the experiment
tasks integer: tasks that were begun
tasks_done integer: tasks that are done or skipped
attempts integer: launches of agents
input_tokens integer: as far as reported
output_tokens integer: as far as reported
cost_usd real: the sum of what was reported; null: nothing was
attempts_unpriced integer: launches whose cost is unknown
seconds real: from its beginning to its last end, pauses included; while it works, to its last change
started_at instant: when it began
updated_at instant: when it was last written to
""",
    "tasks": """one row per task that a run began
run_id text: the run
task text: the task's key
title text: its title
kind text: what it asks for: `build`, `test-first`, …
build_phase text: which part of an app it builds
state text: `done`, `skipped`, `replanned`, `needs_human`, `pending` (taken back) or `open`
reason text: why
proof_level text: how well it is proven; null: not at all
proof_reasons json: why the proof is not stronger
decided_by text: the person who accepted or skipped it; the level is what was measured
first_verdict text: what the judge said first
attempts integer: launches of agents for it, in every phase
failed_attempts integer: attempts, checks and verdicts that failed; see `segue_failed_attempts`
cost_usd real: the sum of what was reported; null: nothing was
commit_id text: the commit that has its work
branch text: the branch that has its work
findings_open integer: review findings that remain
seconds real: from its beginning to its end
started_at instant: when it was first begun
ended_at instant: when it last ended
""",
    "first_attempts": """one row per task that was judged or checked, or whose agent failed
run_id text: the run
task text: the task's key
build_phase text: which part of an app it builds
passed boolean: whether the first attempt passed, before any fix
""",
    "failed_attempts": "one row per failed attempt, with its checks and verdicts: the one definition for all"
    + _STEP
    + """phase text: what failed: `execute`, `check`, `verify`, …
build_phase text: which part of an app it builds
attempt integer: which attempt at the phase
"""
    + _WHO
    + """failure text: the kind of failure of a launch; null: its work was refused
reason text: why
started_at instant: when it began
ended_at instant: when it ended
""",
    "attempts": """one row per launch of an agent, in every phase
run_id text: the run
step text: the step, such as `task/3/execute/2`
gen integer: which generation of the step; a redo begins another
seq integer: the number of its first event
task text: the task's key
phase text: `execute`, `resolve`, `address`, `plan`, `verify`, `search`, …
build_phase text: which part of an app it builds
attempt integer: which attempt at the phase
agent text: who was launched
model text: the model that was asked for
model_reported text: the model the agent says it used
state text: `started`, `done` or `failed`
result text: `PASS`, `FAIL` or `PARTIAL`, from the evidence
action text: what followed
reason text: why
failure text: the kind of failure; null: none
failure_message text: the failure in words
exit_code integer: of the agent
changed boolean: whether the work differs from what the task began with
files_changed integer: how many files
input_tokens integer: null: not reported
output_tokens integer: null: not reported
cost_usd real: null: not reported
seconds real: how long the agent ran
tampering integer: how many things it changed that decide about its work
prompt text: the digest of its prompt
answer text: what it said at last
session text: its conversation
proof_level text: how well its task was proven in the end
tries integer: more than 1: it was interrupted
is_current boolean: false: a redo has replaced it
started_at instant: when it began
ended_at instant: when it ended
""",
    "tool_calls": "one row per call of a tool that an agent reports"
    + _STEP
    + "phase text: the phase\n"
    + _WHO
    + """call_id text: the agent's name for the call
name text: `Read`, `Edit`, `Bash`, …
status text: `success`, `failure`, … as reported
is_ended boolean: false: its end was never reported
input json: what the tool was given
result text: what it returned; JSON text where it is structured
exit_code integer: of a command, where reported
seconds real: how long it took; null where only its end is reported
started_at instant: when it began
ended_at instant: when it ended
""",
    "commands": "one row per command: of agents, of judges, of the settings"
    + _STEP
    + "phase text: the phase\n"
    + _WHO
    + """origin text: `agent`, `diagnostic` or `check`
command text: the command
status text: as the agent reports it; `refused`: a diagnostic that was not allowed
exit_code integer: null: not reported
seconds real: how long it took
"""
    + _AT,
    "errors": "one row per failure, in one form for all"
    + _STEP
    + "phase text: the phase\nbuild_phase text: which part of an app it builds\n"
    + _WHO
    + """kind text: `PARSED_ERROR`, `EXIT_ERROR`, `TOOL_ERROR`, `CHECK_ERROR`, `TIMEOUT` or `REFUSED`
failure text: the kind of failure of a launch
message text: what it says
signature text: the message without what differs from case to case
exit_code integer: of the program
tool text: the tool that failed
command text: the command it ran
stderr_tail text: the end of stderr
commands_run json: what the agent ran before
"""
    + _AT,
    "verdicts": "one row per verdict, of a judge or concluded from an attempt"
    + _STEP
    + """phase text: the phase
build_phase text: which part of an app it builds
attempt integer: which attempt at the phase
"""
    + _WHO
    + """is_judged boolean: true: a judge said so; false: concluded from an attempt
result text: `PASS`, `FAIL` or `PARTIAL`
action text: what should follow
reason text: why
request text: what the action needs: what to search for, which command to run
criteria integer: how many criteria were judged
caveats json: what the rest of the plan should know
"""
    + _AT,
    "criteria": """one row per criterion of a verdict
run_id text: the run
seq integer: the verdict's number in the run's log
n integer: its place in the verdict
step text: the step
gen integer: which generation of the step
task text: the task's key
build_phase text: which part of an app it builds"""
    + _WHO
    + """criterion text: its key, such as `US1/AC2`
met boolean: whether it is met
evidence text: the quote that shows it
"""
    + _AT,
    "checks": "one row per check that ran"
    + _STEP
    + """build_phase text: which part of an app it builds
command text: the command
exit_code integer: null: it could not be run
seconds real: how long it took
ok boolean: whether nothing speaks against the work
state text: `passed`, `failed`, `refuted`, `contested`, `nothing`, `broken`; null: only the exit code is known
reason text: what is wrong
runner text: who reported the tests
seal text: how well it was kept out of the agent's reach
noticed boolean: whether it fails when the changed code is sabotaged; null: not tried
is_scenario boolean: whether it is a black-box scenario
of_task text: the earlier task whose proof was run again
tests_passed integer: how many tests passed
failing json: tests that fail
broken json: tests that passed at the base and do not any more
proved json: tests that failed at the base and pass now
weaknesses json: what was not shown
printed text: the output
report json: the full report, of checks that have one
"""
    + _AT,
    "findings": """one row per finding of a reviewer
run_id text: the run
seq integer: the number of the review's first event
n integer: its place in the review
step text: the step
gen integer: which generation of the step
task text: the task's key
round integer: which review of the task
reviewer text: who found it
finding text: the reviewer's id for it
file text: where
line integer: where
severity text: `error`, `warning`, `info` or `nitpick`
rule text: the reviewer's name for it
message text: what is wrong
suggestion text: what to do
"""
    + _AT,
    "recoveries": """one row per failed attempt about which something was done
run_id text: the run
seq integer: the number of what failed in the run's log
step text: the step that failed
gen integer: which generation of the step; a redo begins another
task text: the task's key
build_phase text: which part of an app it builds
result text: `FAIL` or `PARTIAL`
asked text: the action that the judge asked for; null: no judge was asked
action text: the action that was tried
delivered boolean: false: the search failed, the diagnostic was refused, or there was no new plan
delivered_action text: what reached the agent: the action, or `RETRY` where it was not delivered
problem text: why it was not delivered
next_result text: how the next attempt at the task ended, or after a new plan that of the run; null: none
recovered boolean: whether that is PASS
"""
    + _AT,
    "searches": "one row per search"
    + _STEP
    + """build_phase text: which part of an app it builds
query text: what was searched for
source text: the service or agent that searched
hits integer: how many results
results json: each with `title`, `url`, `text`
failure text: why it failed
delivered boolean: whether it reached the agent
next_result text: how the attempt after it ended
"""
    + _AT,
    "prompts": "one row per prompt that an agent got"
    + _STEP
    + """phase text: the phase
build_phase text: which part of an app it builds
attempt integer: which attempt at the phase
"""
    + _WHO
    + """digest text: of the text
length integer: in characters
text text: the prompt
"""
    + _AT,
    "patches": "one row per attempt that changed something"
    + _STEP
    + """phase text: the phase
build_phase text: which part of an app it builds
attempt integer: which attempt at the phase
"""
    + _WHO
    + """base text: the commit the task began with
head text: the commit the attempt left
tree text: everything that was there, as a git tree or commit
files integer: how many files differ
diff text: unified, from `base` to `tree`; binary files are named only
cut integer: characters that were left out at its end; a last line says so
"""
    + _AT,
}


def _read(name: str, text: str) -> DatasetTable:
    about, *lines = [line for line in text.splitlines() if line]
    columns = []
    for line in lines:
        head, _, meaning = line.partition(": ")
        column, _, kind = head.partition(" ")
        columns.append(DatasetColumn(column, cast("ColumnType", kind), meaning))
    return DatasetTable(name, about, tuple(columns))


FLAT_TABLES: dict[str, DatasetTable] = {name: _read(name, text) for name, text in _TEXT.items()}
"""Every flat table by its name."""

JOURNAL = "orchestrator_"
"""How the names of the journal's own tables begin."""

_SHORT = ("steps", "events", "signals")
EXPORTED = (*FLAT_TABLES, *_SHORT, *(JOURNAL + name for name in ("runs", *_SHORT, "prompts")))
"""The names of everything that can be exported: flat tables first, then the journal's own."""
