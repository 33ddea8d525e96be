"""Plans by agents: whatever they say is read or refused, numbers are never used twice, order holds."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import convert, to_builtins

from segue.domain.job import Role, read_agent_options
from segue.domain.plan import MOST_STEPS, BuildPhase, MalformedPlan, read_plan, revise
from segue.domain.task import Task, TaskKind, TaskStatus
from segue.domain.text import find_object, find_objects

ANY_TEXT = st.text(st.characters(codec=None), max_size=200)
WORDS = st.text(st.characters(codec=None), min_size=1, max_size=30).filter(str.strip)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | ANY_TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(ANY_TEXT, inner, max_size=4),
    max_leaves=20,
)


def step(name: object, *after: object, **more: Any) -> dict[str, Any]:
    made = {"id": name, "title": f"Make {name}", "description": "It is there.", "build_phase": "backend"}
    return {**made, "depends_on": list(after), **more}


def plan(*steps: Any) -> str:
    return json.dumps({"steps": list(steps)})


def pending(*keys: str) -> dict[str, Task]:
    return {key: Task(key, f"Old {key}", "As before.") for key in keys}


# ---- finding JSON


@settings(deadline=None)
@given(ANY_TEXT, ANY_TEXT, st.dictionaries(ANY_TEXT, JSON, max_size=3))
def test_an_object_is_found_between_any_words(before: str, after: str, more: dict[str, Any]) -> None:
    said = json.dumps({**more, "steps": [1]})
    quiet = before.replace("{", "(").replace('"', "'") + said + after.replace("{", "(")
    assert repr(find_object(quiet, "steps")) == repr(json.loads(said))
    list(find_objects(before + said + after))


def test_only_outer_objects_count_and_equal_ones_are_one() -> None:
    assert list(find_objects('{"a": {"b": 1}} {bad {"c": 2}}')) == [{"a": {"b": 1}}, {"c": 2}]
    assert find_object('{"steps": [1]} again {"steps": [1]}', "steps") == {"steps": [1]}
    assert "differ" in find_object('{"steps": [1]} {"steps": [2]}', "steps")


@pytest.mark.parametrize(
    "text", ['{"steps":' * 300 + "[" + "1," * 200_000, '{"steps":' + "[" * 100_000 + "]" * 100_000 + "}"]
)
def test_hopeless_texts_are_given_up_soon(text: str) -> None:
    assert isinstance(find_object(text, "steps"), str)


# ---- reading plans


FIELDS = st.fixed_dictionaries(
    {},
    optional={
        "id": JSON,
        "title": JSON | WORDS,
        "description": JSON | WORDS,
        "build_phase": st.sampled_from([*BuildPhase, " Schema "]) | JSON,
        "acceptance": st.lists(WORDS, max_size=3) | JSON,
        "depends_on": st.lists(st.sampled_from(["1", "2", 1]), max_size=2) | JSON,
        "keep": st.sampled_from(["4", 4, None, "", "9"]) | JSON,
        "kind": st.sampled_from([*TaskKind, None, "", "Docs"]) | JSON,
    },
)


@given(st.lists(FIELDS, max_size=4))
def test_steps_of_any_shape_are_read_or_malformed(steps: list[dict[str, Any]]) -> None:
    try:
        found = read_plan(plan(*steps), pending("4", "5"), 7)
    except MalformedPlan:
        return
    keys = [task.key for task in found]
    assert len(set(keys)) == len(keys)
    for task in found:
        assert task.key in ("4", "5") or int(task.key) > 7
        assert task.title
        assert task.title.isprintable()
        assert convert(json.loads(json.dumps(to_builtins(task))), Task) == task


def test_a_plan_may_name_kinds_and_unknown_ones_are_malformed() -> None:
    steps = read_plan(plan(step("1", kind=" Docs "), step("2", kind="build"), step("3")), {}, 0)
    assert [(task.kind, task.kind_is_given) for task in steps] == [
        (TaskKind.DOCS, True),
        (TaskKind.BUILD, True),
        (TaskKind.BUILD, False),
    ]
    with pytest.raises(
        MalformedPlan, match="Step 1: kind 'doc' is not one of build, test-first, verify-only"
    ):
        read_plan(plan(step("1", kind="doc")), {}, 0)


@settings(deadline=None)
@given(st.data())
def test_order_respects_what_steps_wait_for(data: st.DataObject) -> None:
    count = data.draw(st.integers(1, 12))
    before = {
        n: data.draw(st.sets(st.integers(0, n - 1)), label=f"{n} after") if n else set() for n in range(count)
    }
    written = data.draw(st.permutations(range(count)))
    found = read_plan(plan(*(step(n, *before[n]) for n in written)), {}, 3)
    place = {task.title: position for position, task in enumerate(found)}
    for n in range(count):
        assert all(place[f"Make {other}"] < place[f"Make {n}"] for other in before[n])
    assert sorted(int(task.key) for task in found) == list(range(4, 4 + count))
    title = {task.key: task.title for task in found}
    for n in range(count):
        waits = found[place[f"Make {n}"]].depends_on
        assert {title[key] for one in waits for key in one.keys} == {f"Make {other}" for other in before[n]}


def test_kept_steps_stay_as_they_are_and_new_ones_get_new_numbers() -> None:
    old = pending("2", "3")
    found = read_plan(plan({"keep": 3}, step("x", "y"), {"keep": "2"}, step("y", "2")), old, 5)
    assert [task.key for task in found] == ["3", "2", "7", "6"]
    assert found[0] is old["3"]
    assert [one.keys for one in found[2].depends_on + found[3].depends_on] == [("2",), ("7",)]


def test_a_new_step_without_an_id_is_not_mistaken_for_a_kept_one() -> None:
    new = {key: value for key, value in step("x").items() if key != "id"}
    assert [task.key for task in read_plan(plan({"keep": "2"}, new), pending("2"), 2)] == ["2", "3"]


@pytest.mark.parametrize(
    ("steps", "complaint"),
    [
        ([{"keep": "1"}], "no step that is still to be done"),
        ([{"keep": "2"}, step("2")], "same id: 2"),
        ([step("a", title="\n\0")], "title"),
        ([step("a", acceptance="works")], "must be a list"),
        ([step("a", depends_on=["a"])], "wait for each other"),
        ([step(n) for n in range(MOST_STEPS + 1)], "at most 100"),
        (["a"], "not an object"),
    ],
)
def test_what_is_wrong_is_named(steps: list[Any], complaint: str) -> None:
    with pytest.raises(MalformedPlan, match=complaint):
        read_plan(plan(*steps), pending("2"), 2)


def test_a_plan_may_have_a_hundred_steps_and_a_revision_none() -> None:
    assert len(read_plan(plan(*(step(n) for n in range(MOST_STEPS))), {}, 0)) == MOST_STEPS
    assert read_plan(plan(), pending("2"), 2) == ()
    with pytest.raises(MalformedPlan, match="no steps"):
        read_plan(plan(), {}, 0)


def test_a_title_cannot_add_lines_to_a_commit_message() -> None:
    (task,) = read_plan(plan(step("a", title="Make a\n\nSegue-Run: forged\x1b[31m")), {}, 0)
    assert task.title == "Make a Segue-Run: forged [31m"


@given(st.lists(st.sampled_from(TaskStatus), max_size=6), st.sets(st.integers(1, 9)))
def test_a_revision_never_touches_what_is_completed(states: list[TaskStatus], keys: set[int]) -> None:
    old = [Task(str(n), "old", "", status) for n, status in enumerate(states, 1)]
    new = revise(old, [Task(str(key), "new", "") for key in sorted(keys)])
    ended = [task for task in old if task.status in (TaskStatus.DONE, TaskStatus.SKIPPED)]
    assert list(new[: len(ended)]) == ended
    assert {task.key for task in new} == {task.key for task in ended} | {str(key) for key in keys}
    assert len({task.key for task in new}) == len(new)


# ---- roles


@pytest.mark.parametrize("choice", ["cook=a", "=a", "plan=", "plan= ", "plan=a,"])
def test_choices_that_name_nobody_are_refused(choice: str) -> None:
    with pytest.raises(ValueError, match=r"is not a role|names no agent"):
        read_agent_options([choice])


@given(st.lists(st.sampled_from([*(f"{role}=a:b,c" for role in Role), "x", "y:z"]), max_size=6))
def test_the_last_choice_for_a_role_counts(choices: list[str]) -> None:
    everything, roles = read_agent_options(choices)
    assert everything == next((choice for choice in reversed(choices) if "=" not in choice), None)
    assert set(roles) == {choice.partition("=")[0] for choice in choices if "=" in choice}
