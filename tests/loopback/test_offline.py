"""A machine with no network at all: loopback is the only interface, and a call still works."""

from __future__ import annotations

import shutil
import subprocess
import sys

import pytest

pytestmark = [pytest.mark.loopback, pytest.mark.long]

UNSHARE = shutil.which("unshare")
ALONE = ["unshare", "--user", "--map-root-user", "--net"]

CALL = """
import asyncio, subprocess
import numpy as np
from streamer.clock import MonotonicClock
from streamer.rtc.peer import Peer
from streamer.rtc.settings import PeerSettings
from streamer.rtc.threads import CodecThreads
from streamer.soak import echo
from streamer.soak.client import Visit, Visitor

SIZE = (256, 256)

async def main():
    codecs, clock, enough = CodecThreads(), MonotonicClock(), asyncio.Event()
    peer = Peer(PeerSettings(size_px=SIZE, remote_is_local=True), clock, codecs)
    visitor = Visitor(Visit(microphone=np.full(48_000, 900, np.int16), on_picture=lambda p: enough.set()), clock)
    answer = await visitor.connect(peer.answer)
    hosts = {line.split()[4] for line in answer.splitlines() if line.startswith("a=candidate:")}
    assert hosts == {"127.0.0.1"}, hosts
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(c) for c in (peer.run(), visitor.run(), echo.run(peer, SIZE))]
        async with asyncio.timeout(20):
            await peer.connected()
            await enough.wait()
        for task in tasks:
            task.cancel()
    await peer.close()
    await visitor.close()
    codecs.close()
    print("seen")

subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
asyncio.run(main())
"""


@pytest.mark.skipif(UNSHARE is None or shutil.which("ip") is None, reason="needs unshare and ip")
def test_call_works_where_loopback_is_all_there_is():
    if subprocess.run([*ALONE, "true"], capture_output=True, check=False).returncode:
        pytest.skip("may not make a network namespace here")
    done = subprocess.run([*ALONE, sys.executable, "-c", CALL], capture_output=True, text=True, check=False, timeout=60)
    assert done.stdout.strip() == "seen", done.stderr
