"""The two data channels: `control` from the browser, `telemetry` to it. One JSON object a message, both bounded."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any

from aiortc import RTCDataChannel, RTCPeerConnection
from aiortc.exceptions import InvalidStateError

from streamer.channel import Channel, WhenFull

MAX_MESSAGE_BYTES = 16 * 1024
MAX_BUFFERED_BYTES = 256 * 1024
MAX_CHANNELS = 8
MAX_HELD = 64
"""Messages kept for a `telemetry` channel that is still opening."""

Message = dict[str, Any]


def read_message(data: str | bytes) -> Message | None:
    """One control message, or None if it is not a JSON object of at most 16 KB."""
    if not isinstance(data, str) or len(data) > MAX_MESSAGE_BYTES:
        return None
    try:
        message = json.loads(data)
    except (ValueError, RecursionError):
        return None
    return message if isinstance(message, dict) else None


def encode_message(message: Mapping[str, object]) -> str:
    """One message as it goes on the wire. Raises ValueError for numbers JSON has no word for."""
    return json.dumps(message, separators=(",", ":"), allow_nan=False)


class DataChannels:
    """Reads `control`, answers pings itself, writes `telemetry`; a slow reader loses events, not memory."""

    def __init__(self, on_alive: Callable[[], None], on_abuse: Callable[[], None]) -> None:
        self.control: Channel[Message] = Channel("control", 64, WhenFull.DROP_OLDEST)
        self.events_dropped = 0
        self._on_alive = on_alive
        self._on_abuse = on_abuse
        self._telemetry: RTCDataChannel | None = None
        self._opened = 0
        self._held: deque[Mapping[str, object]] = deque()

    def attach(self, connection: RTCPeerConnection) -> None:
        """Open `telemetry` and listen for `control` on a connection that carries data channels."""
        self._telemetry = connection.createDataChannel("telemetry")
        self._telemetry.on("open", self._on_open)
        connection.on("datachannel", self._on_channel)

    def send_event(self, message: Mapping[str, object]) -> None:
        """Send on `telemetry`, once it is open; dropped and counted where there is none or too much is waiting."""
        if self._telemetry is not None and self._telemetry.readyState == "connecting" and len(self._held) < MAX_HELD:
            self._held.append(message)
        elif self._telemetry is None or not _send(self._telemetry, message):
            self.events_dropped += 1

    def close(self) -> None:
        self.control.close()

    def _on_open(self) -> None:
        while self._held:
            self.send_event(self._held.popleft())

    def _on_channel(self, channel: RTCDataChannel) -> None:
        self._opened += 1
        if self._opened > MAX_CHANNELS:
            self._on_abuse()
        elif channel.label == "control":
            channel.on("message", lambda data: self._on_message(channel, data))

    def _on_message(self, channel: RTCDataChannel, data: str | bytes) -> None:
        self._on_alive()
        message = read_message(data)
        if message is None:
            return
        if message.get("type") == "ping":
            _send(channel, {"type": "pong", "t": message.get("t")})
        elif message.get("type") != "pong":
            self.control.put_nowait(message)


def _send(channel: RTCDataChannel, message: Mapping[str, object]) -> bool:
    if channel.readyState != "open" or channel.bufferedAmount > MAX_BUFFERED_BYTES:
        return False
    try:
        channel.send(encode_message(message))
    except (InvalidStateError, ValueError):
        return False
    return True
