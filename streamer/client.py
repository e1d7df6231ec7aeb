"""A client for programs: drive an avatar over HTTP, WebSocket and Server-Sent Events; watch and hear it, if wanted.

async with Client("http://127.0.0.1:8007") as client:
    session = client.session(session_id)            # of a page that somebody looks at
    await session.say("Good evening.")
    async with session.stream(rate_hz=24_000) as speech:
        async for pcm in synthesiser:                # s16 little-endian, as fast or slow as it comes
            await speech.write(pcm)
    async for event in session.events(): ...
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

import aiohttp

from streamer.channel import Channel, WhenFull
from streamer.clock import Clock, MonotonicClock
from streamer.errors import ServerRefused, SessionClosed

if TYPE_CHECKING:
    from streamer.soak.client import Visit, Visitor

Event = Mapping[str, Any]
"""{"type": "event", "seq", "t_ms", "event": name, …}; see docs/api.md."""
PIECE_BYTES = 64 * 1024
_OK = range(200, 300)


@dataclass(frozen=True, slots=True)
class Spoken:
    """The server has taken a speech."""

    speech: str
    """Its id: events carry it."""
    seconds: float


class Client:
    """One server. Use it as an async context manager."""

    def __init__(self, server: str, token: str | None = None) -> None:
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        self._http = aiohttp.ClientSession(base_url=server.rstrip("/") + "/", headers=headers)

    async def __aenter__(self) -> Client:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._http.close()

    def session(self, session_id: str) -> RemoteSession:
        """A session that runs: whoever holds its id may act on it."""
        return RemoteSession(self._http, session_id)

    async def avatars(self) -> list[dict[str, Any]]:
        """What the server offers. Raises ServerRefused."""
        found: list[dict[str, Any]] = (await _json(self._http, "GET", "api/avatars"))["avatars"]
        return found

    @asynccontextmanager
    async def call(
        self, avatar: str, visit: Visit | None = None, *, source: str = "agent", canvas_px: int | None = None
    ) -> AsyncIterator[Call]:
        """Open a session of our own over WebRTC, watch and listen as `visit` says, hang up at the end.

        Raises ServerRefused, SignalingError.
        """
        from streamer.soak.client import Visit, Visitor

        clock: Clock = MonotonicClock()
        visitor = Visitor(visit or Visit(), clock)
        location: list[str] = []

        async def signal(offer: str) -> str:
            query = {"avatar": avatar, "source": source} | ({"canvas": str(canvas_px)} if canvas_px else {})
            headers = {"Content-Type": "application/sdp"}
            async with self._http.post("api/sessions", params=query, data=offer, headers=headers) as response:
                await _check(response)
                location.append(response.headers["Location"])
                return await response.text()

        try:
            await visitor.connect(signal)
            session = self.session(location[0].rpartition("/")[2])
            async with asyncio.TaskGroup() as group:
                running = group.create_task(visitor.run(), name="visitor")
                await visitor.ready.wait()
                yield Call(session, visitor)
                running.cancel()
            await session.hang_up()
        finally:
            await visitor.close()


@dataclass(frozen=True, slots=True)
class Call:
    """A session of our own and the visitor who watches it."""

    session: RemoteSession
    visitor: Visitor


class RemoteSession:
    """One session of a server. All methods raise ServerRefused (404 once the session has ended)."""

    def __init__(self, http: aiohttp.ClientSession, session_id: str) -> None:
        self.id = session_id
        self._http = http
        self._path = f"api/sessions/{session_id}"

    async def state(self) -> dict[str, Any]:
        return await _json(self._http, "GET", self._path)

    async def speak(self, sound: bytes, content_type: str = "application/octet-stream") -> Spoken:
        """Speak a sound file: WAV, FLAC, MP3 or Ogg, any rate."""
        found = await _json(self._http, "POST", f"{self._path}/speech", sound, content_type)
        return Spoken(found["speech"], found["seconds"])

    async def say(self, text: str, voice: str | None = None) -> Spoken:
        """Speak a text with the server's own voice, or the one named: "flite/rms", "piper/NAME"."""
        path = f"{self._path}/speech" + (f"?{urlencode({'voice': voice})}" if voice else "")
        found = await _json(self._http, "POST", path, text.encode(), "text/plain; charset=utf-8")
        return Spoken(found["speech"], found["seconds"])

    async def interrupt(self) -> None:
        """Fall silent; what is queued is dropped."""
        await _done(self._http, f"{self._path}/interrupt")

    async def recast(self, avatar: str | None = None, canvas_px: int | None = None) -> None:
        """Go on with another avatar or size."""
        wishes = {"avatar": avatar, "canvas": str(canvas_px) if canvas_px else None}
        await _done(self._http, f"{self._path}/avatar", {key: value for key, value in wishes.items() if value})

    async def act(self, name: str) -> None:
        """Play a clip of the avatar between two utterances."""
        await _done(self._http, f"{self._path}/action", {"name": name})

    async def hang_up(self) -> None:
        """End the session; one that has ended, by itself or with its server, is as good."""
        try:
            async with self._http.delete(self._path) as response:
                if response.status not in (204, 404):
                    await _check(response)
        except aiohttp.ClientConnectionError:
            return

    async def events(self, after: int = 0) -> AsyncIterator[Event]:
        """Everything that happens behind event number `after`, from the beginning by default, to the session's end."""
        async with self._http.get(
            f"{self._path}/events", params={"after": str(after)}, timeout=aiohttp.ClientTimeout(total=None)
        ) as response:
            await _check(response)
            async for line in response.content:
                if line.startswith(b"data: "):
                    yield json.loads(line[6:])

    @asynccontextmanager
    async def stream(self, rate_hz: int, channels: int = 1) -> AsyncIterator[SpeechStream]:
        """Speech that is still being made. Leaving the block ends the last utterance, not its being spoken."""
        async with self._http.ws_connect(f"{self._path}/speech", protocols=("liveanchor",)) as socket:
            stream = SpeechStream(socket, rate_hz, channels)
            async with asyncio.TaskGroup() as group:
                group.create_task(stream.listen(), name="speech-stream")
                try:
                    yield stream
                    await stream.end()
                finally:
                    await socket.close()  # the server answers once it has taken all that was written


class SpeechStream:
    """A speech WebSocket. `write` starts an utterance where none is open and waits while the server has enough."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse, rate_hz: int, channels: int) -> None:
        self.speech: str | None = None
        """Id of the utterance being written."""
        self.events: Channel[Event] = Channel("events", 1024, WhenFull.DROP_OLDEST)
        self._socket = socket
        self._format = {"rate": rate_hz, "channels": channels}
        self._bytes_per_s = 2 * channels * rate_hz
        self.interrupted = False
        """The utterance was cut short: what is written of it goes nowhere, until `end`."""
        self._open = False
        self._written_s = 0.0
        self._until_s = 0.0
        self._refusal: str | None = None
        self._moved = asyncio.Event()

    async def write(self, pcm: bytes) -> None:
        """s16 little-endian, interleaved; any number of bytes. Raises SessionClosed, ServerRefused."""
        if not self._open:
            await self._begin()
        for at in range(0, len(pcm), PIECE_BYTES):
            piece = pcm[at : at + PIECE_BYTES]
            await self._credit(len(piece) / self._bytes_per_s)
            if self.interrupted:
                return
            await self._socket.send_bytes(piece)
            self._written_s += len(piece) / self._bytes_per_s

    async def end(self) -> None:
        """The utterance is complete; the next `write` starts another. Idempotent."""
        if self._open and not self._socket.closed:
            await self._socket.send_json({"type": "end"})
        self._open = self.interrupted = False

    async def interrupt(self) -> None:
        """Fall silent, and drop what is queued, this utterance with it."""
        self.interrupted = self._open
        await self._socket.send_json({"type": "interrupt"})

    async def listen(self) -> None:
        """Take what the server says, to the end of the socket."""
        async for message in self._socket:
            if message.type is not aiohttp.WSMsgType.TEXT:
                continue
            said = json.loads(message.data)
            match said["type"]:
                case "event":
                    self.events.put_nowait(said)
                    if self._open and said.get("speech") == self.speech and said.get("interrupted"):
                        self.interrupted = True
                case "accepted":
                    self.speech = said["speech"]
                case "credit" if said["speech"] == self.speech:
                    self._until_s = said["until_s"]
                case "error":
                    self._refusal = said["detail"]
            self._moved.set()
        self.events.close()
        self._moved.set()

    async def _begin(self) -> None:
        self.speech, self._open = None, True
        self._written_s = self._until_s = 0.0
        await self._socket.send_json({"type": "start", **self._format})
        while self.speech is None:
            await self._news()

    async def _credit(self, seconds: float) -> None:
        while not self.interrupted and self._written_s > 0 and self._written_s + seconds > self._until_s:
            await self._news()

    async def _news(self) -> None:
        if self._refusal is not None:
            raise ServerRefused(409, self._refusal)
        if self._socket.closed:
            raise SessionClosed
        self._moved.clear()
        await self._moved.wait()


async def _json(
    http: aiohttp.ClientSession, method: str, path: str, body: bytes | None = None, content_type: str | None = None
) -> dict[str, Any]:
    headers = {"Content-Type": content_type} if content_type else {}
    async with http.request(method, path, data=body, headers=headers) as response:
        await _check(response)
        found: dict[str, Any] = await response.json()
        return found


async def _done(http: aiohttp.ClientSession, path: str, query: Mapping[str, str] | None = None) -> None:
    async with http.post(path, params=query or {}) as response:
        await _check(response)


async def _check(response: aiohttp.ClientResponse) -> None:
    if response.status not in _OK:
        problem = await response.json(content_type=None) if response.content_type.endswith("json") else {}
        raise ServerRefused(response.status, str(problem.get("detail", response.reason)))
