"""A server of trivial echoes through our own media layer: the price of network and WebRTC alone, the yardstick."""

from __future__ import annotations

import asyncio
import signal
import sys

from aiohttp import web

from streamer.clock import Clock, MonotonicClock
from streamer.rtc.peer import Peer
from streamer.rtc.settings import PeerSettings
from streamer.rtc.threads import CodecThreads
from streamer.soak import echo

SIZE_PX = (512, 512)


class EchoServer:
    """`POST /` takes an offer and answers it; the peer then sees and hears itself."""

    def __init__(self, group: asyncio.TaskGroup, clock: Clock, codecs: CodecThreads) -> None:
        self._group = group
        self._clock = clock
        self._codecs = codecs

    async def offer(self, request: web.Request) -> web.Response:
        """201 with the SDP answer."""
        peer = Peer(PeerSettings(SIZE_PX, remote_is_local=True), self._clock, self._codecs)
        answer = await peer.answer(await request.text())
        self._group.create_task(_attend(peer), name="echo")
        return web.Response(text=answer, status=201, content_type="application/sdp")


async def _attend(peer: Peer) -> None:
    async with asyncio.TaskGroup() as group:
        echoing = group.create_task(echo.run(peer, SIZE_PX), name="echoing")
        await peer.run()
        await peer.close()
        echoing.cancel()


async def serve() -> None:
    """Serve on a free port of this machine, say where on stdout, end at SIGTERM."""
    stop, loop = asyncio.Event(), asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGTERM, stop.set)
    with CodecThreads() as codecs:
        async with asyncio.TaskGroup() as group:
            app = web.Application()
            app.router.add_post("/", EchoServer(group, MonotonicClock(), codecs).offer)
            runner = web.AppRunner(app, access_log=None)
            await runner.setup()
            await web.TCPSite(runner, "127.0.0.1", 0).start()
            sys.stdout.write(f"http://127.0.0.1:{runner.addresses[0][1]}/\n")
            sys.stdout.flush()
            await stop.wait()
            await runner.cleanup()


if __name__ == "__main__":
    import uvloop  # the same loop as the real server, or the yardstick would be of another make

    uvloop.run(serve())
