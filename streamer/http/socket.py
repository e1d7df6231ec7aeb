"""One speech WebSocket: utterances in as PCM chunks, events and credit out. Knows the wire, no line."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Executor
from contextlib import suppress
from typing import Literal

import msgspec
from aiohttp import ClientConnectionResetError, WSCloseCode, WSMsgType, web

from streamer.channel import Channel, ChannelClosed
from streamer.errors import SessionClosed, SpeechRejected
from streamer.events import Event
from streamer.http.body import WRITE_WITHIN_S
from streamer.pcm import PcmReader
from streamer.session import Session
from streamer.utterance import Utterance

PROTOCOL = "liveanchor"
AHEAD_S = 60.0
"""So much speech may wait in a session before its sockets are read no further."""


class Start(msgspec.Struct, tag_field="type", tag="start", frozen=True):
    """A new utterance: s16 little-endian, interleaved."""

    rate: int
    channels: int = 1


class End(msgspec.Struct, tag_field="type", tag="end", frozen=True):
    """The utterance is complete."""


class Interrupt(msgspec.Struct, tag_field="type", tag="interrupt", frozen=True):
    """Fall silent."""


class Accepted(msgspec.Struct, frozen=True):
    """Answer to `start`."""

    speech: str
    type: Literal["accepted"] = "accepted"


class Credit(msgspec.Struct, frozen=True):
    """The utterance may be sent up to here without being held back."""

    speech: str
    until_s: float
    type: Literal["credit"] = "credit"


class Refused(msgspec.Struct, frozen=True):
    """The socket is closed behind it."""

    detail: str
    type: Literal["error"] = "error"


Request = Start | End | Interrupt


class SpeechSocket:
    """`run` until either side ends."""

    def __init__(
        self, socket: web.WebSocketResponse, session: Session, executor: Executor, abort: Callable[[], None]
    ) -> None:
        """abort: cuts the connection without a word."""
        self._socket = socket
        self._abort = abort
        self._session = session
        self._executor = executor
        self._utterance: Utterance | None = None
        self._reader: PcmReader | None = None

    async def run(self) -> None:
        events = self._session.follow()
        try:
            async with asyncio.TaskGroup() as group:
                telling = group.create_task(self._tell(events), name="socket-events")
                await self._listen()
                telling.cancel()
        except* (ClientConnectionResetError, ConnectionResetError):
            pass
        except* TimeoutError:
            self._abort()
        except* (SpeechRejected, SessionClosed, msgspec.DecodeError, UnicodeDecodeError) as refused:
            with suppress(ClientConnectionResetError, ConnectionResetError):
                await self._send(Refused(str(refused.exceptions[0])))
            await self._socket.close(code=WSCloseCode.POLICY_VIOLATION)
        finally:
            self._session.leave(events)
            if self._utterance is not None:
                self._session.finish_speech(self._utterance)

    async def _listen(self) -> None:
        async for message in self._socket:
            if message.type is WSMsgType.BINARY:
                await self._append(message.data)
            elif message.type is WSMsgType.TEXT:
                await self._session.requests.turn()
                await self._obey(msgspec.json.decode(message.data, type=Request))

    async def _obey(self, request: Request) -> None:
        match request:
            case Start():
                await self._end()
                self._reader = PcmReader(request.rate, request.channels)
                self._utterance = self._session.open_speech()
                await self._send(Accepted(self._utterance.speech_id))
                await self._credit()
            case End():
                await self._end()
            case Interrupt():
                self._session.interrupt()

    async def _append(self, data: bytes) -> None:
        utterance, reader = self._utterance, self._reader
        if utterance is None or reader is None:
            raise SpeechRejected("send a start message before sound")
        loop = asyncio.get_running_loop()
        pcm48 = await loop.run_in_executor(self._executor, reader.push, data)
        self._session.append_speech(utterance, pcm48)
        if not utterance.voided:
            await self._session.room(AHEAD_S)

    async def _end(self) -> None:
        if self._utterance is None or self._reader is None:
            return
        utterance, reader = self._utterance, self._reader
        self._utterance = self._reader = None
        rest = await asyncio.get_running_loop().run_in_executor(self._executor, reader.finish)
        self._session.append_speech(utterance, rest)
        self._session.finish_speech(utterance)

    async def _tell(self, events: Channel[Event]) -> None:
        """Events as they happen, credit as it grows; the socket closes when the session is over."""
        while True:
            try:
                event = await events.get()
            except ChannelClosed:
                await self._socket.close()
                return
            await self._send(event)
            if event["event"] in ("playback_progress", "playback_finished"):
                await self._credit()

    async def _credit(self) -> None:
        utterance = self._utterance
        if utterance is not None and not utterance.voided:
            until_s = utterance.seconds + AHEAD_S - self._session.queued_s
            await self._send(Credit(utterance.speech_id, round(until_s, 2)))

    async def _send(self, value: object) -> None:
        async with asyncio.timeout(WRITE_WITHIN_S):
            await self._socket.send_str(msgspec.json.encode(value).decode())
