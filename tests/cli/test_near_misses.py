"""What a newcomer types who has only read the help: each line is answered with the one to type.

The first answers to 133 such lines were right for 29; to sets of 60 that were written later, for 44 and 41.
Of 100 written after that, also with wrong files and settings, 70 were answered clearly at first. Of 96 in
the manner of gh, git, uv, docker and npm, 74 were. Of 112 by one who had read the two helps and the
README, 70 were; of 250 in three sets after that, 182. The last lines are from there.
"""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from segue.cli.main import run
from segue.domain.errors import UsageError
from segue.runtime.registry import check_name

LINES = """
start  ->  segue run
start plan.md  ->  segue run plan.md
go plan.md  ->  segue run plan.md
list  ->  segue status
ls  ->  segue status
ps  ->  segue status
runs  ->  segue status
tasks  ->  segue task list
log  ->  segue logs
log last  ->  segue logs last
show last  ->  segue status last
last  ->  segue status last
open  ->  segue serve --open
web  ->  segue serve --open
dashboard  ->  segue serve --open
server  ->  segue serve
kill  ->  segue stop
cancel  ->  segue stop
abort  ->  segue stop
pause  ->  segue stop
continue  ->  segue resume
retry 1  ->  segue run --task 1
rerun  ->  segue resume
restart  ->  segue resume
accept 1  ->  segue task accept 1
skip 2  ->  segue task skip 2 --reason WHY
approve  ->  segue resume
reject 1  ->  segue task comment 1 TEXT
diff  ->  segue proof
cost  ->  segue report
agents  ->  segue agent list
settings  ->  segue config list
set jobs 2  ->  segue config set jobs 2
get jobs  ->  segue config explain jobs
config get jobs  ->  segue config explain jobs
config jobs  ->  segue config explain jobs
config jobs 4  ->  segue config set jobs 4
config set jobs=4  ->  segue config set jobs 4
config edit  ->  segue config list
config unset jobs  ->  segue config explain jobs
update  ->  segue help installing
upgrade  ->  segue help installing
login  ->  segue doctor --agents
install claude  ->  segue help installing
undo  ->  segue help running
clean  ->  segue gc --dry-run
delete last  ->  segue gc --dry-run
rm last  ->  segue gc --dry-run
last status  ->  segue status last
1  ->  segue proof last 1
run --plan plan.md  ->  segue run plan.md
run -f plan.md  ->  segue run plan.md
run --file plan.md  ->  segue run plan.md
run plan.md --parallel 4  ->  segue run plan.md --jobs 4
run plan.md -p 4  ->  segue run plan.md --jobs 4
run plan.md -j4 --agnet scripted  ->  segue run plan.md -j4 --agent scripted
run plan.md --workers 4  ->  segue run plan.md --jobs 4
run plan.md --threads 2  ->  segue run plan.md --jobs 2
run plan.md -t 1  ->  segue run plan.md --task 1
run plan.md --tasks 1  ->  segue run plan.md --task 1
run plan.md --only 1  ->  segue run plan.md --task 1
run plan.md 1  ->  segue run plan.md --task 1
run plan.md -n  ->  segue run plan.md --dry-run
run plan.md --dry  ->  segue run plan.md --dry-run
run plan.md --preview  ->  segue run plan.md --dry-run
run plan.md --force  ->  segue run plan.md --yes
run plan.md -a claude  ->  segue run plan.md --agent claude
run plan.md --agent=scripted --budget 5  ->  SEGUE_LIMITS__COST_USD=5 segue run plan.md --agent=scripted
run plan.md --agent scripted --max-cost 5  ->  SEGUE_LIMITS__COST_USD=5 segue run plan.md --agent scripted
run plan.md --timeout 60  ->  SEGUE_LIMITS__PHASE_TIMEOUT=60 segue run plan.md
run plan.md --agent scripted --background  ->  segue run plan.md --agent scripted --detach
run plan.md --agent scripted -d  ->  segue run plan.md --agent scripted --detach
run plan.md --agent scripted --watch  ->  segue run plan.md --agent scripted --serve
--agent scripted run plan.md  ->  segue run plan.md --agent scripted
-C /nonexistent run plan.md  ->  segue run plan.md -C /nonexistent
--json status  ->  segue status --json
-v run plan.md  ->  segue run plan.md -v
status --run last  ->  segue status last
status --watch  ->  segue logs --follow
status --last  ->  segue status last
proof --latest  ->  segue proof last
resume --last  ->  segue resume
proof --run last  ->  segue proof last
logs --tail  ->  segue logs --follow
resume last --jobs 4  ->  SEGUE_JOBS=4 segue resume last
resume --task 1  ->  segue run --task 1
task 1  ->  segue proof last 1
task show 1  ->  segue proof last 1
task accept last 1  ->  segue task accept 1 --run last
task accept --task 1  ->  segue task accept 1
task reject 1 "no"  ->  segue task comment 1 no
task comment 1 use dates.py  ->  segue task comment 1 'use dates.py'
init plan.md  ->  segue init
init --force  ->  segue config set NAME VALUE
init --agent claude  ->  segue config set agent claude
doctor claude  ->  segue doctor --agents
serve last  ->  segue serve
serve -p 9000  ->  segue serve --port 9000
help start  ->  segue run
help task 1  ->  segue proof last 1
run plan.md --json --quite  ->  segue run plan.md --json --quiet
check plan.md  ->  segue run plan.md
begin plan.md  ->  segue run plan.md
tasks plan.md  ->  segue task list plan.md
plan.md --agent scripted  ->  segue run plan.md --agent scripted
run plan.md --agent scripted --job 2  ->  segue run plan.md --agent scripted --jobs 2
run plan.md --agents claude,codex  ->  segue run plan.md --agent claude,codex
run plan.md --agent scripted --skip 2  ->  segue task skip 2 --reason WHY
run plan.md --agent scripted --until 2  ->  segue run plan.md --agent scripted --until-checkpoint
run plan.md --agent scripted --verbos  ->  segue run plan.md --agent scripted --verbose
run plan.md --agent scripted --log out.log  ->  segue run plan.md --agent scripted --log-file out.log
run plan.md --checks "pytest -q"  ->  SEGUE_CHECKS='pytest -q' segue run plan.md
run plan.md --agent scripted --attempts 3  ->  SEGUE_LIMITS__ATTEMPTS=3 segue run plan.md --agent scripted
run plan.md --agent scripted --detached  ->  segue run plan.md --agent scripted --detach
run plan.md -- pytest  ->  segue run plan.md --
run plan.md --pr=yes  ->  segue run plan.md --pr
run issue 12  ->  segue run 'github:OWNER/REPO#12'
-C . status  ->  segue status -C .
proof --format json  ->  segue proof --json
proof --md  ->  segue proof --markdown
logs -F  ->  segue logs -f
task accpet 1  ->  segue task accept 1
task skip 2 "not needed"  ->  segue task skip 2 --reason 'not needed'
task skip 2 -m "not needed"  ->  segue task skip 2 --reason 'not needed'
task comment --task 1 "Use dates.py"  ->  segue task comment 1 'Use dates.py'
task answer last 1 "Postgres"  ->  segue task answer 1 Postgres --run last
task 2 skip  ->  segue task skip 2 --reason WHY
resume --agent claude  ->  SEGUE_AGENT=claude segue resume
resume --restart  ->  segue run --restart
serve 9000  ->  segue serve --port 9000
init toml  ->  segue init
doctor --agent claude  ->  segue doctor --agents
execute plan.md --agents 2  ->  segue run
run ./plan.md --paralel 3  ->  segue run ./plan.md --jobs 3
run plan.md --agent scripted --max-parallel 3  ->  segue run plan.md --agent scripted --jobs 3
run plan.md --checks=pytest --agent scripted  ->  SEGUE_CHECKS=pytest segue run plan.md --agent scripted
run plan.md --cost 10 --agent scripted  ->  SEGUE_LIMITS__COST_USD=10 segue run plan.md --agent scripted
run plan.md --agent scripted --output json  ->  segue run plan.md --agent scripted --json
run plan.md --agent scripted --no-sandbox  ->  segue run plan.md --agent scripted --isolation none
run plan.md --agent scripted --resume  ->  segue resume
run plan.md --agent scripted --stop-on-error  ->  segue run plan.md --agent scripted --fail-fast
run plan.md --agent scripted --worktrees  ->  segue run plan.md --agent scripted --worktree
run --list  ->  segue task list
run --demo  ->  segue run --detach
running  ->  segue status
halt last  ->  segue stop last
details last  ->  segue status last
log -f  ->  segue logs -f
proof --task=1 --run=last  ->  segue proof --task=1 last
tasks list  ->  segue task list
task lists  ->  segue task list
task accept 1 because it is fine  ->  segue task accept 1 --reason 'because it is fine'
comment 1 "use dates"  ->  segue task comment 1 'use dates'
answer 1 "yes"  ->  segue task answer 1 yes
stop 1 2  ->  segue stop 1
resume --yes  ->  segue run --yes
resume last --agent codex --model gpt-5  ->  segue run --agent codex --model gpt-5
config checks pytest  ->  segue config set checks pytest
config set checks pytest -q  ->  segue config set checks 'pytest -q'
config --list  ->  segue config list
unset jobs  ->  segue config explain jobs
agents test claude  ->  segue agent list
help runing  ->  segue help run
validate plan.md  ->  segue task list plan.md
rerun 2 --agent codex  ->  segue run --task 2 --agent codex
agent use codex  ->  segue config set agent codex
agent test claude  ->  segue agent try claude PROMPT
-v  ->  segue -V
run plan.md --tasks 2 3 --agent scripted  ->  segue run plan.md --task 2 --task 3 --agent scripted
run plan.md --agent claude codex  ->  segue run plan.md --agent claude,codex
run plan.md -n 3  ->  segue run plan.md --jobs 3
run plan.md –agent claude  ->  segue run plan.md --agent claude
run “Build a shop” --repo shop  ->  segue run 'Build a shop' --repo shop
run plan.md --timeout=30m  ->  SEGUE_LIMITS__PHASE_TIMEOUT=1800 segue run plan.md
run plan.md --skip 2 --agent scripted  ->  segue task skip 2 --reason WHY
run Add a search page --agent scripted  ->  segue run 'Add a search page' --agent scripted
run plan.md --isolation docker  ->  segue run plan.md --isolation container
logs --tail 20  ->  segue logs --limit 20
status --kind plans  ->  segue status --kind plan
task accept  ->  segue task accept KEY
task accept 2 3  ->  segue task accept 2 && segue task accept 3
task skip 2  ->  segue task skip 2 --reason WHY
task comment "Use the helper" 2  ->  segue task comment 2 'Use the helper'
say "Use the helper" 2  ->  segue say 2 'Use the helper'
db query SELECT * FROM segue_runs  ->  segue db query 'SELECT * FROM segue_runs'
gc --older-than 7 days  ->  segue gc --older-than 7d
run plan.md --approve yes  ->  segue run plan.md --approve
skip 2 "not needed"  ->  segue task skip 2 --reason 'not needed'
run plan.md --tasks 1,2  ->  segue run plan.md --task 1 --task 2
run plan.md --agent claude --agent-model opus  ->  segue run plan.md --agent claude --model opus
run plan.md -m opus  ->  segue run plan.md --model opus
run plan.md --no-commit  ->  segue run plan.md --commit never
run plan.md --no-review  ->  segue run plan.md --review none
run plan.md other.md  ->  segue run plan.md
run view last  ->  segue status last
run task 2  ->  segue run --task 2
run plan.md --no-serve --jobs 2  ->  segue run plan.md --jobs 2
run plan.md --no-color  ->  segue run plan.md --color never
run ls  ->  segue status
run watch  ->  segue logs --follow
run .  ->  segue run
run . --agent scripted  ->  segue run --agent scripted
run "" --jobs 2  ->  segue run --jobs 2
trust --list  ->  segue trust --show
trust .  ->  segue trust --repo .
run plan.md claude  ->  segue run plan.md --agent claude
run plan.md with claude  ->  segue run plan.md --agent claude
run plan.md on claude 2  ->  segue run plan.md --agent claude --task 2
run plan.md --agents claude codex  ->  segue run plan.md --agent claude,codex
run plan.md task 3  ->  segue run plan.md --task 3
run plan.md --yes=no  ->  segue run plan.md
run plan.md --pr "My title"  ->  segue run plan.md --pr
run plan.md --worktree ../wt  ->  segue run plan.md --worktree
run plan.md --branch feature/x  ->  segue run plan.md --worktree
run plan.md --jobs=0  ->  segue run plan.md --jobs=1
run plan.md --require test  ->  SEGUE_REQUIRE=tested segue run plan.md
run plan.md --budget $5  ->  SEGUE_LIMITS__COST_USD=5 segue run plan.md
run plan.md --model claude:opus  ->  segue run plan.md --agent claude:opus
run "plan.md --task 3"  ->  segue run plan.md --task 3
run gh:a/b  ->  segue run github:a/b
run 1,2  ->  segue run --task 1,2
run "#12"  ->  segue run 'github:OWNER/REPO#12'
run https://github.com/acme/shop/pull/12  ->  segue follow
run plna.md  ->  segue run plan.md
serve --port=:8080  ->  segue serve --port=8080
serve port 8080  ->  segue serve --port 8080
show 1  ->  segue status last 1
status -w  ->  segue logs --follow
say stop  ->  segue stop
say "use tabs"  ->  segue say TASK 'use tabs'
task say 2 use tabs  ->  segue say 2 'use tabs'
task skip last 2  ->  segue task skip 2 --run last --reason WHY
task retry 2  ->  segue run --task 2
resume last --agent  ->  segue run --agent claude
run plan.md --in-parallel  ->  segue run plan.md --jobs 4
export last  ->  segue db export
pr  ->  segue run --pr
dry-run plan.md  ->  segue run plan.md --dry-run
merge last  ->  segue help pull-requests
run plan.md --skip-task 2  ->  segue task skip 2 --reason WHY
run plan.md --exclude 2  ->  segue task skip 2 --reason WHY
run acme/shop  ->  segue run github:acme/shop
task accept task 2  ->  segue task accept 2
task skip 2 3 --reason x  ->  segue task skip 2 --reason x && segue task skip 3 --reason x
serve localhost:8080  ->  segue serve --port 8080
init claude  ->  segue config set agent claude
config set agent  ->  segue config set agent VALUE
config set agents claude  ->  segue config set agent claude
agent claude  ->  segue agent schema claude
agent install claude  ->  segue doctor --agents
check last  ->  segue proof last
report last  ->  segue report run last
run plan.md 1-2  ->  segue run plan.md --task 1-2
run plan.md through claude  ->  segue run plan.md --agent claude
run plan.md --from-task 2  ->  segue run plan.md --from 2
run plan.md --start-at 2  ->  segue run plan.md --from 2
run last  ->  segue resume last
resume task 2  ->  segue run --task 2
stop task 3  ->  segue stop
tasks 2  ->  segue status last 2
task accpt 2 -m ok  ->  segue task accept 2 --reason ok
task skip 2 because obsolete  ->  segue task skip 2 --reason 'because obsolete'
detach plan.md  ->  segue run plan.md --detach
worktree  ->  segue run --worktree
model opus  ->  segue run --model opus
run plan.md#2  ->  segue run plan.md --task 2
run 2 plan.md  ->  segue run plan.md --task 2
run task2  ->  segue run --task 2
run plan.md --check pytest --check ruff  ->  SEGUE_CHECKS='["pytest", "ruff"]' segue run plan.md
run plan.md --agents=claude+codex  ->  segue run plan.md --agent claude,codex
run plan.md --log-format text  ->  SEGUE_LOG__FORMAT=text segue run plan.md
answer "use tabs"  ->  segue task answer KEY 'use tabs'
agent use claude codex  ->  segue config set agent claude,codex
"""


def test_near_misses_are_answered_with_the_line_to_type(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("plan.md").write_text("# Plan\n")
    wrong = []
    for line in LINES.strip().splitlines():
        typed, _, expected = line.partition("  ->  ")
        code = run(shlex.split(typed))
        said = capsys.readouterr().err
        if code != 2 or not said.endswith(f"Next: Type: {expected}\n"):
            wrong.append(f"{typed}: {said}")
    assert wrong == []


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("claude-code", "Did you mean 'claude'?"),
        ("Claude Code", "Did you mean 'claude'?"),
        ("gemini_cli", "Did you mean 'gemini'?"),
        ("gpt-5", "Is it a model? Then: --agent codex:gpt-5"),
        ("cladue", "Did you mean 'claude'?"),
    ],
)
def test_agents_are_found_by_their_other_names(name: str, says: str) -> None:
    with pytest.raises(UsageError, match=says.replace("?", r"\?")):
        check_name("agents", name)


def test_help_before_a_command_is_its_help(capsys: pytest.CaptureFixture[str]) -> None:
    run(["status", "--help"])
    shown = capsys.readouterr().out
    run(["-h", "status"])
    assert capsys.readouterr().out == shown
