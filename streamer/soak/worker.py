"""A process of synthetic clients: a plan on stdin, samples on stdout, one JSON line each. Ends with its clients."""

from __future__ import annotations

import asyncio
import gc
import logging
import sys

import aiohttp
import msgspec

from streamer.app import web_folder
from streamer.bench.call import pin
from streamer.clock import MonotonicClock
from streamer.soak.attendee import Attendee, Desk
from streamer.soak.plan import ClientSample, Plan
from streamer.soak.voice import voice_of
from streamer.speech import decode_speech

SAMPLE = "evening-news.ogg"
VOICE_S = 12.0


async def attend(plan: Plan) -> None:
    """Run the plan's clients to their end."""
    body = (web_folder() / "samples" / SAMPLE).read_bytes()
    voice = voice_of(decode_speech(body, None), VOICE_S)

    def emit(sample: ClientSample) -> None:
        sys.stdout.buffer.write(msgspec.json.encode(sample) + b"\n")
        sys.stdout.buffer.flush()

    headers = {"Authorization": f"Bearer {plan.token}"} if plan.token else {}
    async with aiohttp.ClientSession(headers=headers) as http:
        desk = Desk(plan, http, voice, body, MonotonicClock(), emit)
        async with asyncio.TaskGroup() as group:
            for seat in plan.seats:
                group.create_task(Attendee(seat, desk).run(), name=f"client-{seat.number}")


def main() -> None:
    logging.basicConfig(level=logging.ERROR, stream=sys.stderr)
    plan = msgspec.json.decode(sys.stdin.buffer.read(), type=Plan)
    pin(plan.cores)
    gc.collect()
    gc.freeze()
    asyncio.run(attend(plan))


if __name__ == "__main__":
    main()
