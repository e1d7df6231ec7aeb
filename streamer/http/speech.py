"""Routes of speech: whole sounds and texts by POST, growing ones by WebSocket, and interrupt. Thin."""

from __future__ import annotations

import asyncio
from concurrent.futures import Executor

from aiohttp import web

from streamer import speech
from streamer.config import Config
from streamer.errors import SpeechRejected
from streamer.http.body import json_answer, read_body
from streamer.http.socket import PROTOCOL, SpeechSocket
from streamer.http.wire import SpeechAccepted
from streamer.media import S16, SOUND_HZ, Source
from streamer.registry import Registry
from streamer.session import Session
from streamer.tts import Voices
from streamer.utterance import Utterance

FIRST_PIECE_S, NEXT_PIECES_S = 0.4, 2.0
"""A long sound begins to be spoken while the rest of it is still being decoded."""


class SpeechRoutes:
    """Handlers under /api/sessions/{session}/speech, and /interrupt."""

    def __init__(self, registry: Registry, config: Config, executor: Executor) -> None:
        """executor: one thread that decodes and resamples, and nothing else."""
        self._registry = registry
        self._body_limit = config.limits.speech_bytes
        self._limits = speech.SpeechLimits(config.limits.speech_bytes, config.limits.queued_speech_s)
        self._executor = executor
        self._voices = Voices(config.piper_folder)

    def add_to(self, app: web.Application) -> None:
        router = app.router
        router.add_post("/api/sessions/{session}/speech", self.speak)
        router.add_get("/api/sessions/{session}/speech", self.stream, allow_head=False)
        router.add_post("/api/sessions/{session}/interrupt", self.interrupt)

    async def interrupt(self, request: web.Request) -> web.Response:
        session = self._registry.get(request.match_info["session"])
        await session.requests.turn()
        session.interrupt()
        return web.Response(status=202)

    async def speak(self, request: web.Request) -> web.Response:
        """Sound or text to speak. An interrupt that comes while it is still being read cancels it."""
        session = self._registry.get(request.match_info["session"])
        asked = session.interrupts
        body = await read_body(request, self._body_limit)
        if request.content_type == "text/plain":
            utterance = await self._say(session, body, request.query.get("voice"), asked)
        else:
            utterance = await self._play(session, body, request.content_type, asked)
        return json_answer(SpeechAccepted(utterance.speech_id, round(utterance.seconds, 3)), status=202)

    async def stream(self, request: web.Request) -> web.StreamResponse:
        """Speech that is still being made: PCM chunks of any number of utterances. See docs/api.md."""
        session = self._registry.get(request.match_info["session"])
        if session.source is not Source.AGENT:
            raise SpeechRejected(f"this session's source is {session.source}; speech needs source=agent", 409)
        socket = web.WebSocketResponse(protocols=(PROTOCOL,), max_msg_size=1 << 20)
        if not socket.can_prepare(request):
            raise web.HTTPUpgradeRequired(text="open this path as a WebSocket, or POST a sound to it")
        await socket.prepare(request)
        transport = request.transport
        if transport is not None:
            await SpeechSocket(socket, session, self._executor, transport.abort).run()
        return socket

    async def _say(self, session: Session, body: bytes, voice: str | None, asked: int) -> Utterance:
        try:
            text = body.decode("utf-8")
        except UnicodeDecodeError as error:
            raise SpeechRejected("the text is not UTF-8") from error
        pcm48 = await self._voices.synthesise(text, voice, self._executor)
        utterance = session.open_speech(len(pcm48) / SOUND_HZ)
        session.append_speech(utterance, pcm48)
        _finish(session, utterance, asked)
        return utterance

    async def _play(self, session: Session, body: bytes, content_type: str, asked: int) -> Utterance:
        loop = asyncio.get_running_loop()
        pieces = speech.decode_pieces(body, content_type, self._limits)

        async def take(seconds: float) -> S16:
            return await loop.run_in_executor(self._executor, speech.take_seconds, pieces, seconds)

        piece = await take(FIRST_PIECE_S)
        utterance = session.open_speech()
        try:
            while len(piece) and session.interrupts == asked:
                session.append_speech(utterance, piece)
                piece = await take(NEXT_PIECES_S)
        except SpeechRejected:
            session.cancel_speech(utterance)
            raise
        finally:
            _finish(session, utterance, asked)
        return utterance


def _finish(session: Session, utterance: Utterance, asked: int) -> None:
    if session.interrupts != asked:
        session.cancel_speech(utterance)
    session.finish_speech(utterance)
