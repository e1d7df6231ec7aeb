"""A show rendered faster than it plays: the live line's stages and the room's table, driven by frames. Synchronous."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from engines.contract import LipSyncEngine
from streamer.media import CHUNK_SAMPLES, CHUNKS_PER_FRAME, FRAME_SAMPLES, S16, Picture
from streamer.performer import Beat, Performer, Speaker, render
from streamer.roundtable.board import Sitter
from streamer.roundtable.floor import Floor, FloorMode
from streamer.roundtable.placing import face_place
from streamer.roundtable.rundown import Cue, Show, Timeline
from streamer.roundtable.table import Table

_SILENCE = np.zeros(FRAME_SAMPLES, np.int16)


class Production:
    """Iterate `pictures` once."""

    def __init__(self, show: Show, timeline: Timeline, speakers: Mapping[str, Speaker]) -> None:
        """`speakers`: an avatar for each seat, all on one engine."""
        self._timeline = timeline
        self._engine: LipSyncEngine = next(iter(speakers.values())).engine
        self._performers = {seat: Performer(speaker) for seat, speaker in speakers.items()}
        self._floor = Floor(tuple(speakers), FloorMode.QUEUE)
        sitters: dict[str, Sitter] = {
            seat.seat: show.sitter(number, face_place(speakers[seat.seat].face.packet))
            for number, seat in enumerate(show.seats)
        }
        self.table = Table(show.look(), sitters, show.layout, self._floor)
        for described in show.seats:
            self.table.mixer.gains_db[described.seat] = described.gain_db

    def pictures(self) -> Iterator[Picture]:
        """Every frame of the show with its own 40 ms of sound, in order."""
        lookahead = max(performer.lookahead_chunks for performer in self._performers.values())
        frames = self._timeline.frames
        beats: dict[str, list[Beat]] = {seat: [] for seat in self._performers}
        cues = list(self._timeline.cues)
        turns: dict[int, int] = {}
        shown = 0
        for frame in range(frames + -(-lookahead // CHUNKS_PER_FRAME)):
            for seat, performer in self._performers.items():
                sound = self._sound(seat, frame)
                for first in range(0, FRAME_SAMPLES, CHUNK_SAMPLES):
                    beats[seat] += performer.push(sound[first : first + CHUNK_SAMPLES])
            while shown < frames and all(beats.values()):
                now = {seat: waiting.pop(0) for seat, waiting in beats.items()}
                self._follow(cues, turns, shown)
                yield self._frame(shown, now)
                shown += 1

    def _frame(self, index: int, beats: Mapping[str, Beat]) -> Picture:
        patches = render(self._engine, list(beats.values()))
        pictures = {
            seat: self._performers[seat].picture(beat, patch)
            for (seat, beat), patch in zip(beats.items(), patches, strict=True)
        }
        return self.table.lay(index, pictures).picture

    def _follow(self, cues: list[Cue], turns: dict[int, int], index: int) -> None:
        """Do what the rundown says for this frame."""
        while cues and cues[0].index <= index:
            cue = cues.pop(0)
            if cue.line.layout is not None:
                self.table.set_layout(cue.line.layout, cue.line.featured)
            elif cue.line.seat is not None and cue.sound is not None:
                turns[self._floor.take_turn(cue.line.seat)] = cue.index + len(cue.sound) // FRAME_SAMPLES
        for turn in [turn for turn, end in turns.items() if end <= index]:
            self._floor.end_turn(turn)
            del turns[turn]

    def _sound(self, seat: str, frame: int) -> S16:
        for cue in self._timeline.cues:
            if cue.sound is None or cue.line.seat != seat:
                continue
            first = (frame - cue.index) * FRAME_SAMPLES
            if 0 <= first < len(cue.sound):
                return cue.sound[first : first + FRAME_SAMPLES]
        return _SILENCE
