"""Each cloud agent beside Cursor's keeps its promises; whatever goes wrong, nothing is launched twice."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from segue import check_agent
from segue.domain.events import AgentRaw, AgentStarted
from tests.parts.clouds.place import SECRET, VENDORS, SessionPlace, Vendor, in_clone, open_session_place
from tests.parts.sim.cloud_desk import REPO


@pytest.fixture(params=VENDORS, ids=lambda vendor: vendor.name)
def vendor(request: pytest.FixtureRequest) -> Vendor:
    assert isinstance(request.param, Vendor)
    return request.param.in_repository(REPO.removeprefix("https://github.com/"))


@pytest.fixture
def place(vendor: Vendor, tmp_path: Path) -> Iterator[SessionPlace]:
    with open_session_place(vendor, tmp_path) as found:
        yield found


@pytest.mark.thorough
@pytest.mark.quick("copilot-cloud")
def test_it_conforms(vendor: Vendor, place: SessionPlace, tmp_path_factory: pytest.TempPathFactory) -> None:
    with open_session_place(vendor, tmp_path_factory.mktemp("hanging"), on=[{"hold": True}]) as hanging:
        check_agent(in_clone(place), hangs=hanging.make)
        stops = not vendor.kind.profile.can.unstoppable
        assert hanging.state()["active"] == (0 if stops else 2), "what can be stopped is not left at work"
    # reports, edits, adopts; nothing was launched twice
    assert place.state()["sessions"] == 3


def test_the_work_is_on_a_branch_of_the_remote(place: SessionPlace) -> None:
    ended = place.run(place.job())
    assert ended.kind is None, ended.message
    [branch] = ended.outcome.branches
    assert place.has_branch(branch)


@pytest.mark.quick("jules")
def test_a_launch_without_an_answer_is_found(place: SessionPlace) -> None:
    for number, fault in enumerate(("lost", "failed"), 1):
        place.breaks(fault, place.vendor.launch)
        # Two lists are read before the launch and after it: the second one lags, once.
        place.breaks("lag", place.vendor.listing, after=number)
        ended = place.run(place.job())
        assert ended.kind is None, ended.message
        assert ended.of(AgentStarted)[0].adopted
        assert place.state()["sessions"] == len(place.asked(place.vendor.launch)) == number


@pytest.mark.quick("claude-cloud")
def test_what_was_certainly_not_launched_is_launched_again(place: SessionPlace) -> None:
    place.breaks("refuse", place.vendor.launch, status=500)
    place.breaks("missing", place.vendor.look, times=1)
    ended = place.run(place.job())
    assert ended.kind is None, ended.message
    assert place.state()["sessions"] == 1
    first, second = (one["n"] for one in place.asked(place.vendor.launch))
    lists = [one for one in place.asked(place.vendor.listing) if first < one["n"] < second]
    assert len(lists) == 2, "it is looked for twice in between"


@pytest.mark.quick("devin")
def test_no_odd_answer_while_it_works_abandons_it(place: SessionPlace) -> None:
    """A key that is refused for a moment, a proxy that knows nothing, an overload: it is paid for."""
    for number, status in enumerate((401, 403, 404, 409, 429, 502), 1):
        place.breaks("refuse", place.vendor.look, times=2, status=status)
        ended = place.run(place.job())
        assert (ended.kind, place.state()["sessions"]) == (None, number), f"{status}: {ended.message}"


@pytest.mark.quick("jules")
def test_an_unknown_word_is_said_once_and_watched(place: SessionPlace) -> None:
    place.plays(during="dreaming", hold=True)

    def release(event: object) -> None:
        if isinstance(event, AgentRaw) and event.kind == "unknown_status":
            place.sim("release", {})

    ended = place.run(place.job(), then=release)
    assert ended.kind is None, ended.message
    assert len([raw for raw in ended.of(AgentRaw) if raw.kind == "unknown_status"]) == 1


REFUSALS = {
    (401, "No."): "auth",
    (403, "Not for you."): "auth",
    (402, "Pay first."): "usage_limit",
    (400, "Your credit balance is too low."): "usage_limit",
    (422, "No such thing."): "not_started",
}


@pytest.mark.thorough
@pytest.mark.quick("devin")
def test_what_a_refused_launch_means(place: SessionPlace) -> None:
    for number, ((status, message), kind) in enumerate(REFUSALS.items(), 1):
        place.breaks("refuse", place.vendor.launch, status=status, message=message)
        ended = place.run(place.job())
        assert (ended.kind, message.rstrip(".") in ended.message) == (kind, True), ended.message
        assert SECRET not in str(ended.items)
        assert len(place.asked(place.vendor.launch)) == number, "a refusal is final"


@pytest.mark.quick("jules")
def test_a_limit_is_waited_for(place: SessionPlace) -> None:
    place.breaks("refuse", place.vendor.launch, status=429, retry_after="1")
    assert place.run(place.job()).kind is None
    first, second = place.asked(place.vendor.launch)
    assert second["at"] - first["at"] >= 1


@pytest.mark.quick("jules")
def test_a_follow_up_continues_on_the_same_branch(place: SessionPlace) -> None:
    first = place.run(place.job("One"))
    if not place.vendor.kind.profile.can.follow_up:
        return
    second = place.run(place.job("Two", session=first.outcome.session))
    assert second.kind is None, second.message
    assert second.outcome.branches == first.outcome.branches
    assert (first.said, second.said) == ("Done: turn 1.", "Done: turn 2."), (
        "earlier turns are not shown again"
    )
    assert place.state()["sessions"] == 1


def test_a_key_is_needed(place: SessionPlace, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in place.vendor.env:
        monkeypatch.delenv(name)
    ended = place.run(place.job())
    assert (ended.kind, place.state()["sessions"]) == ("auth", 0)


FAULTS = st.lists(st.sampled_from(["lost", "failed", "refuse", ""]), max_size=2)


@settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    launches=FAULTS, lags=st.booleans(), looks=st.lists(st.sampled_from(["missing", "refuse"]), max_size=2)
)
@pytest.mark.thorough
def test_no_sequence_of_faults_launches_twice(
    vendor: Vendor,
    tmp_path_factory: pytest.TempPathFactory,
    launches: list[str],
    lags: bool,
    looks: list[str],
) -> None:
    with open_session_place(vendor, tmp_path_factory.mktemp("faults")) as place:
        for number, fault in enumerate(launches):
            if fault:
                place.breaks(fault, vendor.launch, after=number)
        if lags:
            place.breaks("lag", vendor.listing, after=1)
        for number, fault in enumerate(looks):
            place.breaks(fault, vendor.look, after=number, status=503)
        job = place.job()
        ended = place.run(job)
        assert place.state()["sessions"] == 1
        assert ended.kind is None, ended.message
        assert place.run(job).outcome.branches == ended.outcome.branches
        assert place.state()["sessions"] == 1, "asked again, it is adopted"
