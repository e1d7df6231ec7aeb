"""The last minutes of a server: sessions finish what they have to say, as long as there is time. Thin."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Protocol


class Draining(Protocol):
    """The registry, as this module sees it."""

    async def drain(self) -> None:
        """Take no more sessions, tell those that run, return when all have finished."""
        ...


async def drain(registry: Draining, hurry: asyncio.Event, within_s: float) -> None:
    """Return once all sessions have finished, somebody is in a hurry, or the time is up."""
    over = asyncio.Event()

    async def finish() -> None:
        await registry.drain()
        over.set()

    async def hurried() -> None:
        await hurry.wait()
        over.set()

    with suppress(TimeoutError):
        async with asyncio.timeout(within_s), asyncio.TaskGroup() as group:
            tasks = [group.create_task(finish(), name="drain"), group.create_task(hurried(), name="hurry")]
            await over.wait()
            for task in tasks:
                task.cancel()
