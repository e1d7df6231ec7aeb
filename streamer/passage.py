"""The way of a session's sound through the stages: their channels, their tasks, and a short cut when time is short."""

from __future__ import annotations

from collections.abc import Coroutine
from dataclasses import dataclass
from typing import Any

from streamer.channel import Channel, WhenFull
from streamer.clock import Clock
from streamer.media import AudioChunk, AudioWindow, FrameSound, GatedChunk
from streamer.pipeline import compose, lipsync, vad, window


@dataclass(frozen=True, slots=True, eq=False)
class Stages:
    """What sound passes through, in order."""

    vad: vad.Vad
    windower: window.Windower
    lipsync: lipsync.LipSync
    composer: compose.Composer


class Passage:
    """Chunks in, sounds and jobs out. The stages run as tasks; `hurry` does their work at once, in the same order."""

    def __init__(self, stages: Stages, sink: lipsync.MouthSink, clock: Clock) -> None:
        self.chunks: Channel[AudioChunk] = Channel("chunks", 64, WhenFull.DROP_OLDEST)
        self._gated: Channel[GatedChunk] = Channel("gated", 64, WhenFull.DROP_OLDEST)
        self._windows: Channel[FrameSound | AudioWindow] = Channel("windows", 64, WhenFull.DROP_OLDEST)
        self._stages = stages
        self._sink = sink
        self._clock = clock

    def tasks(self) -> dict[str, Coroutine[Any, Any, None]]:
        """One task a stage, by name."""
        stages, clock = self._stages, self._clock
        return {
            "vad": vad.run(stages.vad, self.chunks, self._gated, clock),
            "window": window.run(stages.windower, self._gated, self._windows, clock),
            "lipsync": lipsync.run(stages.lipsync, self._windows, self._sink, clock),
        }

    def hurry(self, now_ns: int) -> None:
        """Carry everything that is on its way through to its end: a busy loop wakes each task late."""
        stages = self._stages
        while (made := self._windows.get_nowait()) is not None:
            lipsync.take(stages.lipsync, made, self._sink, now_ns)
        while (gated := self._gated.get_nowait()) is not None:
            for made in stages.windower.push(gated, now_ns):
                lipsync.take(stages.lipsync, made, self._sink, now_ns)
        while (chunk := self.chunks.get_nowait()) is not None:
            for made in stages.windower.push(stages.vad.push(chunk, now_ns), now_ns):
                lipsync.take(stages.lipsync, made, self._sink, now_ns)
