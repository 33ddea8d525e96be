"""The reader of server-sent events: pieces of any size, giants, and continuing after any number of cuts."""

from __future__ import annotations

import random

from hypothesis import given
from hypothesis import strategies as st

from segue.agents.cloud.calls import Freshness, Resume, SseFrame, SseParser

TEXTS = st.text(max_size=20).filter(lambda text: not set(text) & set("\r\n\0"))
NAMES = st.text(st.sampled_from("abcdé_ "), min_size=1, max_size=6).map(str.strip).filter(bool)


@given(st.lists(st.tuples(TEXTS, NAMES, st.lists(TEXTS, min_size=1)), max_size=6), st.data(), st.booleans())
def test_it_does_not_matter_how_the_bytes_arrive(
    told: list[tuple[str, str, list[str]]], data: st.DataObject, crlf: bool
) -> None:
    lines = []
    for id_, event, texts in told:
        lines += [f"id: {id_}", f"event: {event}", *(f"data: {text}" for text in texts), ""]
    raw = "".join(f"{line}\r\n" if crlf else f"{line}\n" for line in lines).encode()
    parser, found, start = SseParser(), list[SseFrame](), 0
    for cut in [*sorted(data.draw(st.lists(st.integers(0, len(raw)), max_size=8))), len(raw)]:
        found += parser.feed(raw[start:cut])
        start = cut
    assert found == [SseFrame(id_, event, "\n".join(texts)) for id_, event, texts in told]


def test_a_giant_is_left_out_and_the_rest_is_read() -> None:
    parser = SseParser(max_event=1000)
    found = list(parser.feed(b"id: 1\nevent: big\ndata: "))
    for _ in range(100):
        found += parser.feed(b"x" * 500)
    found += parser.feed(b"\n\nid: 2\nevent: small\ndata: y\n\n")
    assert found == [SseFrame("1", "big", "", cut=True), SseFrame("2", "small", "y")]


@given(st.lists(st.integers(1, 2), min_size=1, max_size=12), st.integers(0, 2**32), st.integers(0, 8))
def test_nothing_is_lost_or_doubled_however_often_the_stream_is_cut(
    pairs: list[int], seed: int, cuts: int
) -> None:
    """A server that is asked to resume after an id counts its twins as seen."""
    frames = [
        SseFrame(str(number), "simple" if twin == 0 else "interaction_update", str(number))
        for number, count in enumerate(pairs)
        for twin in range(count)
    ]
    chance, resume, got = random.Random(seed), Resume(), []
    for left in reversed(range(cuts + 1)):
        seen = [index for index, frame in enumerate(frames, 1) if frame.id == resume.last_id]
        sent = [SseFrame("", "status", "{}"), *frames[seen[-1] if seen else 0 :]]
        heard = sent[: chance.randint(0, len(sent))] if left else sent
        got += [frame for frame in heard if resume.note(frame) is not Freshness.SEEN and frame.id]
    assert got == frames
