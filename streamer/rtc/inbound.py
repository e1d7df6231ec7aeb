"""The inbound audio buffer: packets in as they come, sound pieces out in order, gaps filled by timestamp. Pure.

What is in order leaves at once. A hole shows when a packet behind it is here; it is waited for until shortly after its
own due time, a patience that follows what the network does, then declared lost and its exact length made up.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass

from streamer.clock import NS_PER_MS, NS_PER_S
from streamer.media import SOUND_HZ
from streamer.rtc.settings import InboundStats

MAX_FILL_SAMPLES = SOUND_HZ
"""A hole of more than a second is a pause of the sender: it is not filled, the timeline goes on behind it."""
MAX_HELD = 64
MAX_JUMP = 200
"""Packets further away than this belong to another life of the sender, unless a second one says the same."""
_KEPT_LOST = 64


def opus_samples(payload: bytes) -> int:
    """Length of an Opus packet at 48 kHz from its table-of-contents byte (RFC 6716, 3.1); 0 if it is no packet."""
    if not payload:
        return 0
    config, code = payload[0] >> 3, payload[0] & 3
    if config < 12:
        frame_samples = (480, 960, 1920, 2880)[config & 3]
    elif config < 16:
        frame_samples = (480, 960)[config & 1]
    else:
        frame_samples = (120, 240, 480, 960)[config & 3]
    frames = 1 if code == 0 else 2
    if code == 3:
        frames = payload[1] & 0x3F if len(payload) > 1 else 0
    samples = frames * frame_samples
    return samples if samples <= 5760 else 0


@dataclass(frozen=True, slots=True)
class Piece:
    """What comes next on the sender's timeline: a packet to decode, or a hole to make up."""

    samples: int
    source_sample: int
    """Contiguous: each piece starts where the one before ended."""
    arrived_ns: int
    payload: bytes | None = None
    """None: nothing came for these samples."""
    silent: bool = False
    """The sender skipped these samples on purpose (DTX): silence, not a loss to conceal."""


@dataclass(frozen=True, slots=True)
class _Held:
    timestamp: int
    payload: bytes
    samples: int
    arrived_ns: int


class _Patience:
    """How long past its due time a packet is waited for: longer where packets prove late, shorter where lost.

    25 ms is one packet more and a little: the packet behind the hole is here by then, and the filling still in time.
    """

    START_NS = 25 * NS_PER_MS
    LEAST_NS = 20 * NS_PER_MS
    MOST_NS = 60 * NS_PER_MS

    def __init__(self) -> None:
        self.ns = self.START_NS

    def note_late(self, late_ns: int) -> None:
        self.ns = min(self.MOST_NS, max(self.ns, late_ns + late_ns // 8))

    def note_lost(self) -> None:
        self.ns = max(self.LEAST_NS, self.ns * 19 // 20)


class InboundAudioBuffer:
    """Orders one audio stream. Call `push` for each packet, then `pop`; call `pop` again at `next_deadline_ns`."""

    def __init__(self) -> None:
        self.sources = 0
        """How often another source has taken over."""
        self._ssrc: int | None = None
        self._next_seq = 0
        self._next_timestamp = 0
        self._position = 0
        self._held: dict[int, _Held] = {}
        self._lost: OrderedDict[int, int] = OrderedDict()
        self._suspect: int | None = None
        self._patience = _Patience()
        self._transit_ns: int | None = None
        self._jitter_ns = 0.0
        self._counts = dict.fromkeys(("packets", "lost", "late", "duplicated", "resets", "concealed_samples"), 0)

    @property
    def stats(self) -> InboundStats:
        return InboundStats(jitter_ms=self._jitter_ns / NS_PER_MS, **self._counts)

    def push(self, seq: int, timestamp: int, payload: bytes, now_ns: int, ssrc: int = 0) -> None:
        """Take a packet: 16-bit sequence number, 32-bit timestamp at 48 kHz, Opus payload."""
        self._counts["packets"] += 1
        samples = opus_samples(payload)
        if samples == 0:
            return
        if ssrc != self._ssrc:
            self.sources += 1
            self._restart(seq, timestamp, ssrc)
        seq = _nearest(seq, self._next_seq, 16)
        distance = seq - self._next_seq
        if abs(distance) > MAX_JUMP:
            if self._suspect != seq & 0xFFFF:
                self._suspect = (seq + 1) & 0xFFFF
                return
            self._restart(seq & 0xFFFF, timestamp, ssrc)
            seq, distance = self._next_seq, 0
        self._suspect = None
        timestamp = _nearest(timestamp, self._next_timestamp, 32)
        if distance < 0:
            self._note_past(seq, now_ns)
        elif seq in self._held:
            self._counts["duplicated"] += 1
        else:
            self._held[seq] = _Held(timestamp, payload, samples, now_ns)
            self._note_jitter(timestamp, now_ns)

    def pop(self, now_ns: int) -> list[Piece]:
        """Everything that can be released now, in order."""
        pieces: list[Piece] = []
        while self._held:
            held = self._held.pop(self._next_seq, None)
            lost = held is None
            if held is None:
                deadline_ns = self.next_deadline_ns()
                if deadline_ns is not None and now_ns < deadline_ns and len(self._held) <= MAX_HELD:
                    break
                held = self._give_up()
            self._fill(held.timestamp - self._next_timestamp, pieces, now_ns, silent=not lost)
            pieces.append(Piece(held.samples, self._position, held.arrived_ns, held.payload))
            self._position += held.samples
            self._next_timestamp = held.timestamp + held.samples
            self._next_seq += 1
        return pieces

    def next_deadline_ns(self) -> int | None:
        """When the hole in front is given up; None while there is none. Any held packet lies behind the hole."""
        return self._due_ns() + self._patience.ns if self._held else None

    def _due_ns(self) -> int:
        """When the missing packet in front should have come, judged by those that came after it."""
        return min(
            held.arrived_ns - max(0, held.timestamp - self._next_timestamp) * NS_PER_S // SOUND_HZ
            for held in self._held.values()
        )

    def _give_up(self) -> _Held:
        """Declare everything before the first held packet lost; returns that packet."""
        first = min(self._held)
        missing, due_ns = first - self._next_seq, self._due_ns()
        span_ns = max(0, self._held[first].timestamp - self._next_timestamp) * NS_PER_S // SOUND_HZ
        for number in range(missing):
            self._lost[self._next_seq + number] = due_ns + number * span_ns // missing
        while len(self._lost) > _KEPT_LOST:
            self._lost.popitem(last=False)
        self._counts["lost"] += missing
        self._patience.note_lost()
        self._next_seq = first
        return self._held.pop(first)

    def _fill(self, missing: int, pieces: list[Piece], now_ns: int, *, silent: bool) -> None:
        if missing == 0:
            return
        if not 0 < missing <= MAX_FILL_SAMPLES:
            self._counts["resets"] += 1
            return
        pieces.append(Piece(missing, self._position, now_ns, silent=silent))
        self._position += missing
        if not silent:
            self._counts["concealed_samples"] += missing

    def _note_past(self, seq: int, now_ns: int) -> None:
        due_ns = self._lost.pop(seq, None)
        if due_ns is None:
            self._counts["duplicated"] += 1
            return
        self._counts["late"] += 1
        self._counts["lost"] -= 1
        self._patience.note_late(now_ns - due_ns)

    def _note_jitter(self, timestamp: int, now_ns: int) -> None:
        """Interarrival jitter of RFC 3550, A.8, in ns."""
        transit_ns = now_ns - timestamp * NS_PER_S // SOUND_HZ
        if self._transit_ns is not None:
            self._jitter_ns += (abs(transit_ns - self._transit_ns) - self._jitter_ns) / 16
        self._transit_ns = transit_ns

    def _restart(self, seq: int, timestamp: int, ssrc: int) -> None:
        if self._ssrc is not None:
            self._counts["resets"] += 1
        self._ssrc = ssrc
        self._next_seq, self._next_timestamp = seq, timestamp
        self._held.clear()
        self._lost.clear()
        self._suspect = None
        self._transit_ns = None


def _nearest(value: int, near: int, bits: int) -> int:
    """The number that is `value` in its low bits and lies nearest to `near`: undoes wraparound."""
    half = 1 << (bits - 1)
    return near + ((value - near + half) & ((1 << bits) - 1)) - half
