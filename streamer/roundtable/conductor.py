"""Plays a show into a live room: line by line, each speaker when the one before has been heard."""

from __future__ import annotations

from collections.abc import Mapping

from streamer.media import FPS, S16
from streamer.roundtable.floor import FloorMode
from streamer.roundtable.room import Room
from streamer.roundtable.rundown import Show


async def conduct(room: Room, show: Show, sounds: Mapping[int, S16]) -> None:
    """From the first line to the last, or to the end of the room. `sounds`: of the lines that speak, by number."""
    room.floor.set_mode(FloorMode.QUEUE)
    for number, line in enumerate(show.rundown):
        if room.over:
            return
        if line.layout is not None:
            room.table.set_layout(line.layout, line.featured)
        elif line.pause_s is not None:
            await _pause(room, line.pause_s)
        elif line.seat is not None:
            turn = room.say(line.seat, sounds[number])
            while turn is not None and room.turns.waits(turn) and not room.over:
                await room.tick()
            await _pause(room, show.gap_s)


async def _pause(room: Room, seconds: float) -> None:
    for _ in range(round(seconds * FPS)):
        if room.over:
            return
        await room.tick()
