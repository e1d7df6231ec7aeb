"""All samples of a soak, kept small enough for hours: raw latencies, one row a client and second, server readings."""

from __future__ import annotations

from array import array
from collections import Counter
from dataclasses import dataclass, field

from streamer.soak.plan import ClientSample, Failure
from streamer.soak.watch import ServerSample


@dataclass(slots=True)
class Track:
    """Values with their times, seconds since the soak's beginning."""

    t_s: array[float] = field(default_factory=lambda: array("d"))
    values: array[float] = field(default_factory=lambda: array("d"))

    def add(self, t_s: float, value: float | None) -> None:
        if value is not None:
            self.t_s.append(t_s)
            self.values.append(value)

    def add_all(self, t_s: float, values: tuple[float, ...]) -> None:
        for value in values:
            self.add(t_s, value)


@dataclass(slots=True)
class Tally:
    """What one client adds up to."""

    profile: str = ""
    frames: int = 0
    """Of whole seconds in which a call ran, as all that follows."""
    pictures: int = 0
    live_s: float = 0.0
    silent_s: float = 0.0
    """Seconds of a running call without one packet of sound."""
    calls: int = 0
    refused: int = 0
    """Times the server said that it has no room."""
    failures: list[tuple[float, Failure]] = field(default_factory=list)
    """With the time of the sample that told of it."""
    live: bool = False


TRACKS = (
    "mic_to_ear_ms", "mic_to_lip_ms", "residual_ms", "interrupt_to_silence_ms", "frame_gap_ms", "sound_gap_ms",
    "av_offset_ms", "setup_ms",
)  # fmt: skip


@dataclass(slots=True)
class Record:
    """`note` each client sample, `note_server` each reading."""

    tracks: dict[str, Track] = field(default_factory=lambda: {name: Track() for name in TRACKS})
    clients: dict[int, Tally] = field(default_factory=dict)
    server: list[ServerSample] = field(default_factory=list)
    refusals: Counter[str] = field(default_factory=Counter)
    """How often the server gave which reason for having no room."""

    def note(self, sample: ClientSample) -> None:
        t_s, tracks = sample.t_s, self.tracks
        tracks["mic_to_ear_ms"].add_all(t_s, sample.to_ear_ms)
        tracks["mic_to_lip_ms"].add_all(t_s, sample.to_lip_ms)
        tracks["interrupt_to_silence_ms"].add_all(t_s, sample.silence_ms)
        tracks["frame_gap_ms"].add_all(t_s, sample.gaps_ms)
        tracks["setup_ms"].add_all(t_s, sample.setup_ms)
        tracks["residual_ms"].add(t_s, sample.residual_ms)
        tracks["av_offset_ms"].add(t_s, sample.av_offset_ms)
        tally = self.clients.setdefault(sample.client, Tally(str(sample.profile)))
        whole = sample.live and tally.live  # the second before was of the same call or the next
        tally.live = sample.live
        tally.calls = max(tally.calls, sample.calls)
        tally.refused += sum(failure.refused for failure in sample.failures)
        tally.failures += ((t_s, failure) for failure in sample.failures if not failure.refused)
        self.refusals.update(failure.reason for failure in sample.failures if failure.refused)
        if whole:
            tracks["sound_gap_ms"].add(t_s, sample.sound_gap_ms)
            tally.live_s += sample.span_s
            tally.frames += sample.frames
            tally.pictures += sample.pictures
            if not sample.sounds:
                tally.silent_s += sample.span_s

    def note_server(self, sample: ServerSample) -> None:
        self.server.append(sample)

    @property
    def live_clients(self) -> int:
        return sum(tally.live for tally in self.clients.values())
