"""The reader of server-sent events: pieces of any size, giants, and going on after any number of cuts."""

from __future__ import annotations

import random

from hypothesis import given
from hypothesis import strategies as st

from segue.agents.cloud.calls import Freshness, Resume, SseFrame, SseParser

TEXTS = st.text(max_size=20).filter(lambda text: not set(text) & set("\r\n\0"))
NAMES = st.text(st.sampled_from("abcdé_ "), min_size=1, max_size=6).map(str.strip).filter(bool)


def parse(raw: bytes, cuts: list[int]) -> list[SseFrame]:
    """The events of the bytes when they arrive in pieces."""
    parser, start = SseParser(), 0
    found: list[SseFrame] = []
    for cut in [*sorted(cuts), len(raw)]:
        found += parser.feed(raw[start : max(start, cut)])
        start = max(start, cut)
    return found


@given(st.lists(st.tuples(TEXTS, NAMES, st.lists(TEXTS, min_size=1)), max_size=6), st.data(), st.booleans())
def test_it_does_not_matter_how_the_bytes_arrive(
    told: list[tuple[str, str, list[str]]], data: st.DataObject, crlf: bool
) -> None:
    lines = []
    for id_, event, texts in told:
        lines += [f"id: {id_}", f"event: {event}", *(f"data: {text}" for text in texts), ""]
    raw = "".join(f"{line}\r\n" if crlf else f"{line}\n" for line in lines).encode()
    cuts = data.draw(st.lists(st.integers(0, len(raw)), max_size=8))
    assert parse(raw, cuts) == [SseFrame(id_, event, "\n".join(texts)) for id_, event, texts in told]


def test_comments_strange_fields_and_half_events_are_no_events() -> None:
    raw = b": hello\n\nretry: 5\nevent:tick\ndata:1\n\nnonsense\n\nevent: only\n\nevent: half\ndata: 2\n"
    assert parse(raw, []) == [SseFrame("", "tick", "1")]


def test_bytes_that_are_no_text_do_not_stop_the_reader() -> None:
    assert parse(b"event: x\ndata: \xff\xfe\n\n", [])[0].data == "\ufffd\ufffd"


def test_a_giant_is_left_out_and_the_rest_is_read() -> None:
    parser = SseParser(max_event=1000)
    found = list(parser.feed(b"id: 1\nevent: big\ndata: "))
    for _ in range(100):
        found += parser.feed(b"x" * 500)
    found += parser.feed(b"\n\nid: 2\nevent: small\ndata: y\n\n")
    assert found == [SseFrame("1", "big", "", cut=True), SseFrame("2", "small", "y")]


def test_a_giant_of_many_lines_is_left_out_too() -> None:
    parser = SseParser(max_event=1000)
    raw = b"event: big\n" + b"data: 0123456789\n" * 500 + b"\nevent: small\ndata: y\n\n"
    assert list(parser.feed(raw)) == [SseFrame("", "big", "", cut=True), SseFrame("", "small", "y")]


def told_by_server(frames: list[SseFrame], last_id: str | None) -> list[SseFrame]:
    """What a server sends to somebody who has seen the id: twins of it count as seen."""
    places = [index for index, frame in enumerate(frames) if last_id is not None and frame.id == last_id]
    return [SseFrame("", "status", "{}"), *frames[places[-1] + 1 if places else 0 :]]


@given(st.lists(st.integers(1, 2), min_size=1, max_size=12), st.integers(0, 2**32), st.integers(0, 8))
def test_nothing_is_lost_or_doubled_however_often_the_stream_is_cut(
    pairs: list[int], seed: int, cuts: int
) -> None:
    frames = [
        SseFrame(str(number), "simple" if twin == 0 else "interaction_update", str(number))
        for number, count in enumerate(pairs)
        for twin in range(count)
    ]
    chance, resume, got = random.Random(seed), Resume(), []
    for left in reversed(range(cuts + 1)):
        sent = told_by_server(frames, resume.last_id)
        heard = sent[: chance.randint(0, len(sent))] if left else sent
        got += [frame for frame in heard if resume.note(frame) is not Freshness.SEEN and frame.id]
    assert got == frames


def test_a_twin_is_told_apart_from_something_new() -> None:
    resume = Resume()
    told = [
        SseFrame("1", "assistant", ""),
        SseFrame("1", "interaction_update", ""),
        SseFrame("2", "assistant", ""),
    ]
    noted = [(resume.note(frame), resume.last_id) for frame in [*told, told[-1]]]
    assert noted == [
        (Freshness.NEW, None),
        (Freshness.TWIN, None),  # the pair may not be complete
        (Freshness.NEW, "1"),
        (Freshness.SEEN, "1"),
    ]
