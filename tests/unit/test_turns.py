"""A flood of requests on one session: all are obeyed, none at the cost of others."""

from __future__ import annotations

import asyncio

import pytest

from streamer.admission import REQUESTS_BURST, REQUESTS_PER_S, Turns
from streamer.clock import NS_PER_S, ManualClock

pytestmark = pytest.mark.unit


async def test_flood_is_obeyed_at_a_pace_and_a_few_requests_at_once():
    clock, obeyed = ManualClock(), []
    turns = Turns(clock)

    async def flood():
        for number in range(3000):
            await turns.turn()
            obeyed.append(number)

    async with asyncio.TaskGroup() as group:
        group.create_task(flood())
        for _ in range(2 * REQUESTS_BURST):
            await clock.sleep_until(0)
        assert len(obeyed) == REQUESTS_BURST
        await clock.advance(5 * NS_PER_S)
        assert len(obeyed) == REQUESTS_BURST + 5 * REQUESTS_PER_S
        await clock.advance(60 * NS_PER_S)
    assert obeyed == list(range(3000))


async def test_others_run_between_any_two_requests_of_a_flood():
    turns, order = Turns(ManualClock()), []

    async def requests(name):
        for _ in range(20):
            await turns.turn()
            order.append(name)

    async with asyncio.TaskGroup() as group:
        group.create_task(requests("flood"))
        group.create_task(requests("other"))
    assert order == ["flood", "other"] * 20
