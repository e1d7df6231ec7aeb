"""Rooms and shows that a server opens by itself, from files."""

from __future__ import annotations

import logging
from collections.abc import Coroutine
from concurrent.futures import Executor
from pathlib import Path
from typing import Any

from streamer.errors import ConfigError, StreamerError
from streamer.roundtable.conductor import conduct
from streamer.roundtable.description import NAME, RoomDescription, check_room, read_file
from streamer.roundtable.room import Room
from streamer.roundtable.rooms import Rooms
from streamer.roundtable.rundown import Show, read_show
from streamer.roundtable.script import gather_sounds
from streamer.tts import Voices

logger = logging.getLogger(__name__)


async def open_file(rooms: Rooms, path: Path, voices: Voices, executor: Executor) -> Coroutine[Any, Any, None]:
    """Open the room of a TOML or JSON file, named as the file is; returns what plays its rundown, where it has one.

    Raises ConfigError, AvatarError, EngineError.
    """
    name = path.stem.lower()
    if not NAME.fullmatch(name):
        raise ConfigError(str(path), "the file's name becomes the room's: a-z, 0-9, '_' and '-', at most 32")
    if "rundown" not in read_file(path, dict[str, Any]):
        described = check_room(read_file(path, RoomDescription), str(path), local_files=True)
        await rooms.open(name, described)
        return _nothing()
    show = read_show(path)
    sounds = await gather_sounds(show, path.parent, voices, executor)
    return _play(await rooms.open(name, show), show, sounds)


async def _play(room: Room, show: Show, sounds: dict[int, Any]) -> None:
    try:
        await conduct(room, show, sounds)
    except StreamerError as error:
        logger.warning("show_ended", extra={"room": room.name, "reason": type(error).__name__})


async def _nothing() -> None:
    return
