"""The inbound audio buffer: order, holes, wraparound, and what it never does."""

from __future__ import annotations

import heapq

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamer.clock import NS_PER_MS
from streamer.rtc.inbound import MAX_HELD, InboundAudioBuffer, Piece, opus_samples

pytestmark = pytest.mark.unit

TOC = {480: 0xF0, 960: 0xF8, 1920: 0x10, 2880: 0x18}
MS = NS_PER_MS


def packet(number: int, samples: int = 960) -> bytes:
    return bytes([TOC[samples], number >> 8, number & 0xFF])


def number_of(piece: Piece) -> int | None:
    return None if piece.payload is None else piece.payload[1] << 8 | piece.payload[2]


class Line:
    """Pushes 20 ms packets by their number and collects what comes out."""

    def __init__(self, seq: int = 65530, timestamp: int = 2**32 - 3000) -> None:
        self.buffer = InboundAudioBuffer()
        self.seq, self.timestamp = seq, timestamp
        self.out: list[Piece] = []

    def send(self, number: int, now_ms: float, ssrc: int = 7) -> list[Piece]:
        now_ns = int(now_ms * MS)
        self.buffer.push(
            (self.seq + number) & 0xFFFF, (self.timestamp + number * 960) & 0xFFFFFFFF, packet(number), now_ns, ssrc
        )
        return self.pop(now_ms)

    def pop(self, now_ms: float) -> list[Piece]:
        pieces = self.buffer.pop(int(now_ms * MS))
        self.out += pieces
        return pieces

    def numbers(self) -> list[int | None]:
        return [number_of(piece) for piece in self.out]


@pytest.mark.parametrize(
    ("payload", "samples"),
    [
        (b"", 0),
        (bytes([0xF8, 1]), 960),
        (bytes([0xE0, 1]), 120),
        (bytes([0xF9, 1]), 1920),
        (bytes([0x18, 1]), 2880),
        (bytes([0x60, 1]), 480),
        (bytes([0x6B, 3]), 2880),
        (bytes([0xFB]), 0),
        (bytes([0xFB, 0]), 0),
        (bytes([0x1B, 3]), 0),
    ],
)
def test_packet_length_is_read_from_its_first_byte(payload, samples):
    assert opus_samples(payload) == samples


def test_packets_in_order_leave_as_they_come_across_both_wraparounds():
    line = Line()
    for number in range(20):
        assert [number_of(p) for p in line.send(number, 20 * number)] == [number]
    assert [p.source_sample for p in line.out] == [960 * n for n in range(20)]
    assert line.buffer.next_deadline_ns() is None


def test_swapped_packets_are_put_right_without_concealment():
    line = Line()
    line.send(0, 0)
    assert line.send(2, 40) == []
    assert [number_of(p) for p in line.send(1, 45)] == [1, 2]
    assert line.buffer.stats.lost == line.buffer.stats.concealed_samples == 0


def test_hole_is_filled_to_the_sample_25_ms_after_its_packet_was_due():
    line = Line()
    line.send(0, 0)
    line.send(2, 41)
    deadline_ns = line.buffer.next_deadline_ns()
    assert deadline_ns == 46 * MS
    assert line.pop(45.9) == []
    hole, after = line.pop(46)
    assert (hole.payload, hole.samples, hole.source_sample, hole.silent) == (None, 960, 960, False)
    assert (number_of(after), after.source_sample, after.arrived_ns) == (2, 1920, 41 * MS)
    assert line.buffer.stats.lost == 1
    assert line.buffer.stats.concealed_samples == 960


def test_hole_whose_time_is_over_when_it_shows_is_filled_at_once():
    line = Line()
    line.send(0, 0)
    hole, after = line.send(4, 80)
    assert (hole.samples, number_of(after)) == (2880, 4)


def test_packet_that_comes_after_its_hole_was_filled_is_dropped_and_makes_patient():
    line = Line()
    line.send(0, 0)
    line.send(2, 40)
    line.pop(45)
    assert line.send(1, 68) == []
    stats = line.buffer.stats
    assert (stats.late, stats.lost, stats.duplicated) == (1, 0, 0)
    line.send(4, 80)
    assert line.buffer.next_deadline_ns() == (60 + 54) * MS


def test_patience_shrinks_where_packets_are_only_ever_lost():
    line = Line()
    for number in range(0, 200, 2):
        line.send(number, 20 * number)
        line.pop(20 * number + 40)
    assert [number_of(p) for p in line.send(200, 5000)] == [None, 200]


def test_duplicates_are_counted_and_not_heard_twice():
    line = Line()
    for number in (0, 0, 1, 3, 3, 1):
        line.send(number, 20 * number)
    assert line.numbers() == [0, 1]
    assert line.buffer.stats.duplicated == 3


def test_pause_of_the_sender_is_silence_not_loss():
    line = Line()
    line.send(0, 0)
    line.timestamp += 9600
    silence, after = line.send(1, 220)
    assert (silence.samples, silence.silent, after.source_sample) == (9600, True, 10560)
    assert line.buffer.stats.lost == line.buffer.stats.concealed_samples == 0


def test_pause_of_more_than_a_second_is_not_filled():
    line = Line()
    line.send(0, 0)
    line.timestamp += 48_000 * 10
    assert [p.source_sample for p in line.send(1, 10_000)] == [960]
    assert line.buffer.stats.resets == 1


def test_new_source_takes_over_at_once_and_the_timeline_goes_on():
    line = Line()
    line.send(0, 0, ssrc=1)
    line.send(2, 40, ssrc=1)
    line.seq, line.timestamp = 100, 5
    pieces = line.send(0, 50, ssrc=2)
    assert [p.source_sample for p in pieces] == [960]
    assert line.buffer.next_deadline_ns() is None
    assert line.buffer.sources == 2


def test_one_stray_packet_from_far_away_changes_nothing_but_two_are_a_restart():
    line = Line()
    line.send(0, 0)
    assert line.send(5000, 5) == []
    assert [number_of(p) for p in line.send(1, 20)] == [1]
    assert line.send(9000, 30) == []
    assert [number_of(p) for p in line.send(9001, 40)] == [9001]
    assert [p.source_sample for p in line.out] == [0, 960, 1920]


def test_timestamps_that_run_backwards_do_not_stop_the_sound():
    line = Line()
    line.send(0, 0)
    line.timestamp -= 5000
    assert [p.source_sample for p in line.send(1, 20)] == [960]


def test_what_is_no_opus_packet_is_a_hole():
    line = Line()
    line.send(0, 0)
    line.buffer.push((line.seq + 1) & 0xFFFF, line.timestamp + 960 & 0xFFFFFFFF, b"", 20 * MS, 7)
    line.send(2, 40)
    assert [number_of(p) for p in line.pop(60)] == [None, 2]


def test_jitter_is_measured_as_rfc_3550_says():
    line = Line(0, 0)
    for number in range(100):
        line.send(number, 20 * number + (10 if number % 2 else 0))
    assert line.buffer.stats.jitter_ms == pytest.approx(10.0, abs=0.1)


durations = st.sampled_from(sorted(TOC))


@st.composite
def deliveries(draw):
    """A stream and what a bad network makes of it: (arrival ms, number) events, duplicates included."""
    lengths = draw(st.lists(durations, min_size=1, max_size=60))
    starts = [sum(lengths[:n]) for n in range(len(lengths))]
    events = []
    for number, (start, length) in enumerate(zip(starts, lengths, strict=True)):
        if number and draw(st.integers(0, 9)) == 0:
            continue
        due_ms = (start + length) / 48
        for _ in range(draw(st.sampled_from((1, 1, 1, 2)))):
            heapq.heappush(events, (due_ms + draw(st.floats(0, 80)), number))
    seq, timestamp = draw(st.integers(0, 0xFFFF)), draw(st.integers(0, 0xFFFFFFFF))
    return lengths, starts, [heapq.heappop(events) for _ in range(len(events))], seq, timestamp


@given(deliveries())
def test_whatever_the_network_does_sound_is_contiguous_in_order_and_soon(delivery):
    lengths, starts, events, seq, timestamp = delivery
    buffer, out = InboundAudioBuffer(), []

    def pop(now_ns: int) -> None:
        out.extend((piece, now_ns) for piece in buffer.pop(now_ns))

    for arrival_ms, number in events:
        now_ns = int(arrival_ms * MS)
        while (deadline_ns := buffer.next_deadline_ns()) is not None and deadline_ns <= now_ns:
            pop(deadline_ns)
        payload = packet(number, lengths[number])
        buffer.push((seq + number) & 0xFFFF, (timestamp + starts[number]) & 0xFFFFFFFF, payload, now_ns)
        pop(now_ns)
        assert buffer.next_deadline_ns() is None or buffer.next_deadline_ns() > now_ns
    while (deadline_ns := buffer.next_deadline_ns()) is not None:
        pop(deadline_ns)

    position = 0
    for piece, _ in out:
        assert piece.source_sample == position
        position += piece.samples
    numbers = [number_of(piece) for piece, _ in out if piece.payload is not None]
    assert numbers == sorted(set(numbers))
    first = numbers[0]
    for piece, released_ns in out:
        if piece.payload is not None:
            assert piece.source_sample == starts[number_of(piece)] - starts[first]
            assert released_ns - piece.arrived_ns <= 60 * MS
    stats = buffer.stats
    assert stats.packets == len(events) == len(numbers) + stats.late + stats.duplicated
    assert stats.resets == 0


@given(st.lists(st.tuples(st.integers(0, 0xFFFF), st.integers(0, 0xFFFFFFFF), st.binary(max_size=8)), max_size=400))
def test_garbage_never_grows_the_buffer_or_breaks_the_timeline(packets):
    buffer, position = InboundAudioBuffer(), 0
    for now_ns, (seq, timestamp, payload) in enumerate(packets):
        buffer.push(seq, timestamp, payload, now_ns)
        for piece in buffer.pop(now_ns):
            assert piece.source_sample == position
            assert 0 < piece.samples <= 48_000
            position += piece.samples
        assert len(buffer._held) <= MAX_HELD + 1
        assert len(buffer._lost) <= 64
