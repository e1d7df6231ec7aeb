"""Pushes a feed to another server by WHIP: our offer, its answer, the packets that were encoded for all."""

from __future__ import annotations

import asyncio
import secrets
from functools import partial
from urllib.parse import urljoin

import aiohttp
from aiortc import RTCConfiguration, RTCPeerConnection, RTCRtpSender, RTCRtpTransceiver, RTCSessionDescription

from streamer.broadcast.feed import Feed
from streamer.broadcast.recorder import RecordingOrder
from streamer.clock import Clock
from streamer.errors import SignalingError, StreamerError
from streamer.film import RTMP
from streamer.rtc import aiortc_hooks as hooks
from streamer.rtc import ice, negotiation
from streamer.rtc.encoder import VideoCodec
from streamer.rtc.link import Link, SenderFeedback
from streamer.rtc.settings import IceSettings

CONNECT_WITHIN_S = 15.0
MAX_ANSWER_BYTES = 64 * 1024


class Publisher:
    """`run` publishes until `stop`, the feed's end or the other server's. Looks like a recorder from outside."""

    def __init__(self, feed: Feed, url: str, token: str | None, ice_settings: IceSettings, clock: Clock) -> None:
        self.id = secrets.token_hex(8)
        self.order = RecordingOrder(feed.name, url, RTMP, feed.size_px)
        self.state = "recording"
        """recording, finished or failed."""
        self.error: str | None = None
        self.missing = self.given_up = 0
        self.signed = False
        self._token = token
        self._ice = ice_settings
        self._clock = clock
        self._relay = feed.relay()
        self._link = Link(clock)
        self._stopped = asyncio.Event()

    @property
    def frames(self) -> int:
        """Pictures sent."""
        return self._relay.counts["pictures_sent"]

    def stop(self) -> None:
        """Hang up; `run` then ends. Idempotent."""
        self._stopped.set()
        self._link.end("hung_up")

    async def run(self) -> None:
        """What goes wrong is told by `state` and `error`; nothing is raised."""
        headers = {"Authorization": f"Bearer {self._token}"} if self._token else {}
        connection = RTCPeerConnection(RTCConfiguration(iceServers=ice.to_rtc_servers(self._ice.ice_servers)))
        connection.on("connectionstatechange", lambda: self._link.note_state(connection.connectionState))
        try:
            timeout = aiohttp.ClientTimeout(total=CONNECT_WITHIN_S)
            async with aiohttp.ClientSession(headers=headers, timeout=timeout) as http:
                session = await self._call(http, connection)
                try:
                    await self._publish()
                finally:
                    async with http.delete(session):
                        pass
            self.state = "finished"
        except* (StreamerError, aiohttp.ClientError, OSError, ValueError) as errors:
            self._fail(errors.exceptions[0])
        finally:
            self._relay.stop()
            await connection.close()

    def _fail(self, error: BaseException) -> None:
        self.state = "finished" if self._stopped.is_set() else "failed"
        if self.state == "failed":
            known = isinstance(error, StreamerError)
            self.error = str(error) if known else f"the server cannot be reached ({type(error).__name__})"

    async def _call(self, http: aiohttp.ClientSession, connection: RTCPeerConnection) -> str:
        """Offer, take the answer; the session's address."""
        lines = [connection.addTransceiver(track, "sendonly") for track in (self._relay.audio, self._relay.video)]
        lines[1].setCodecPreferences([c for c in RTCRtpSender.getCapabilities("video").codecs if c.name == "VP8"])
        for line in lines:
            self._listen(line)
        for transport in negotiation.ice_transports(connection):
            agent = hooks.connection(transport)
            hooks.tap_checks(agent, self._link.note_alive)
            hooks.gather_with(agent, partial(ice.gather, settings=self._ice, remote_is_local=True))
        await connection.setLocalDescription()
        headers = {"Content-Type": "application/sdp"}
        async with http.post(self.order.target, data=connection.localDescription.sdp, headers=headers) as response:
            body = (await response.content.read(MAX_ANSWER_BYTES)).decode("utf-8", "replace")
            if response.status != 201 or "Location" not in response.headers:
                raise SignalingError(f"the server refused with status {response.status}")
            await connection.setRemoteDescription(RTCSessionDescription(body, "answer"))
            taken = [line.kind for line in lines if line.currentDirection == "sendonly"]
            self._relay.codec = VideoCodec("VP8") if "video" in taken else None
            self._relay.both = len(taken) == 2
            return urljoin(str(response.url), response.headers["Location"])

    async def _publish(self) -> None:
        async with asyncio.TaskGroup() as group:
            tasks = [
                group.create_task(self._relay.run(), name="publisher"),
                group.create_task(self._link.watch(), name="publisher-liveness"),
            ]
            await self._link.wait_connected(int(CONNECT_WITHIN_S * 1e9))
            await self._link.gone.wait()
            for task in tasks:
                task.cancel()
        if not self._stopped.is_set():
            raise SignalingError("the server has ended the session")

    def _listen(self, line: RTCRtpTransceiver) -> None:
        reports = self._relay.anchored(line.sender)
        steering = self._relay.steering if line.kind == "video" else None
        feedback = SenderFeedback(self._link, reports, self._clock, steering)
        hooks.tap_rtcp(line.sender, feedback.heard, feedback.resend)
