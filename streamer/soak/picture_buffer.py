"""A video stream's packets put in order as browsers do it: a picture is whole at its marker, what is missing is asked
for again and again, and what cannot be had any more is skipped up to the next keyframe."""

from __future__ import annotations

from dataclasses import dataclass

from aiortc import rtp
from aiortc.jitterbuffer import JitterFrame

from streamer.clock import NS_PER_MS, NS_PER_S, Clock

VP8_START_CODE = b"\x9d\x01\x2a"
H264_START_CODE = b"\x00\x00\x00\x01"
H264_WHOLE_PICTURE = (5, 7, 8)
"""Types of the unit that a keyframe begins with: the picture itself or its parameters."""


@dataclass(slots=True)
class _Hole:
    """A packet that others have overtaken."""

    since_ns: int
    asked_ns: int
    times: int = 1


class PictureBuffer:
    """Stands in for aiortc's jitter buffer of a video receiver.

    aiortc's gives a picture at the first packet of the one after it, which makes each look 40 ms late, and asks for
    a lost packet again only when another is lost.
    """

    REPAIRABLE = 128
    """Packets that a sender keeps."""
    AGAIN_NS = 50 * NS_PER_MS
    MOST_TIMES = 10
    LONGEST_NS = NS_PER_S
    """What has not come after so long is given up."""
    KEYFRAME_GAP_NS = 500 * NS_PER_MS

    def __init__(self, clock: Clock) -> None:
        self.ssrc = 0
        self._clock = clock
        self._next_seq: int | None = None
        """The first packet of the next picture; None: waits for a keyframe."""
        self._newest_seq = 0
        self._held: dict[int, rtp.RtpPacket] = {}
        self._holes: dict[int, _Hole] = {}
        self._keyframe_asked_ns: int | None = None

    def add(self, packet: rtp.RtpPacket) -> tuple[bool, JitterFrame | None]:
        """Whether the peer must be asked for a keyframe; pictures are fetched with `whole`."""
        seq, now_ns = packet.sequence_number, self._clock.now_ns()
        if self._next_seq is None:
            if not _starts_keyframe(packet):
                return self._ask_for_keyframe(now_ns), None
            self.ssrc, self._next_seq, self._newest_seq = packet.ssrc, seq, seq
        if _ahead(seq, self._next_seq) < 0:
            return False, None
        for lost in range(1, _ahead(seq, self._newest_seq)):
            self._holes[self._newest_seq + lost & 0xFFFF] = _Hole(now_ns, now_ns)
        if _ahead(seq, self._newest_seq) > 0:
            self._newest_seq = seq
        self._held[seq] = packet
        self._holes.pop(seq, None)
        if self._repairable(self._next_seq, now_ns):
            return False, None
        return not self._skipped() and self._ask_for_keyframe(now_ns), None

    def whole(self) -> tuple[int, JitterFrame] | None:
        """The next picture with its payload type, if all of it is here."""
        seq, parts = self._next_seq, []
        while seq is not None and (packet := self._held.get(seq)) is not None:
            parts.append(packet)
            seq = seq + 1 & 0xFFFF
            if packet.marker:
                for part in parts:
                    del self._held[part.sequence_number]
                self._next_seq = seq
                return packet.payload_type, JitterFrame(b"".join(_data(part) for part in parts), packet.timestamp)
        return None

    def missing(self) -> list[int]:
        """Sequence numbers that it is time to ask for again."""
        now_ns = self._clock.now_ns()
        wanted = []
        for seq, hole in self._holes.items():
            if now_ns - hole.asked_ns >= self.AGAIN_NS and hole.times < self.MOST_TIMES:
                hole.asked_ns, hole.times = now_ns, hole.times + 1
                wanted.append(seq)
        return wanted

    def _repairable(self, next_seq: int, now_ns: int) -> bool:
        if not self._holes:
            return True
        oldest_ns = next(iter(self._holes.values())).since_ns
        return now_ns - oldest_ns < self.LONGEST_NS and _ahead(self._newest_seq, next_seq) < self.REPAIRABLE

    def _skipped(self) -> bool:
        """Whether a keyframe behind the first hole has begun to arrive: it is gone on with there."""
        first_hole = next(iter(self._holes))
        behind = (seq for seq in self._held if _ahead(seq, first_hole) > 0 and _starts_keyframe(self._held[seq]))
        self._next_seq = start = min(behind, key=lambda seq: _ahead(seq, first_hole), default=None)
        for kept in (self._held, self._holes):
            for seq in [seq for seq in kept if start is None or _ahead(seq, start) < 0]:
                del kept[seq]
        return start is not None

    def _ask_for_keyframe(self, now_ns: int) -> bool:
        asked_ns = self._keyframe_asked_ns
        if asked_ns is not None and now_ns - asked_ns < self.KEYFRAME_GAP_NS:
            return False
        self._keyframe_asked_ns = now_ns
        return True


def _ahead(seq: int, of: int) -> int:
    return (seq - of + 0x8000 & 0xFFFF) - 0x8000


def _data(packet: rtp.RtpPacket) -> bytes:
    """What aiortc has taken out of the payload."""
    data: bytes = getattr(packet, "_data", b"")
    return data


def _starts_keyframe(packet: rtp.RtpPacket) -> bool:
    data = _data(packet)
    if data.startswith(H264_START_CODE):
        return data[4] & 0x1F in H264_WHOLE_PICTURE
    return data[3:6] == VP8_START_CODE and not data[0] & 1
