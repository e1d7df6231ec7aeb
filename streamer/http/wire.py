"""What goes over HTTP, as structs. The OpenAPI document is made from these."""

from __future__ import annotations

from typing import Any, Literal

import msgspec


class SdpOffer(msgspec.Struct, frozen=True):
    """A WebRTC offer as JSON."""

    sdp: str
    type: Literal["offer"] = "offer"


class SdpAnswer(msgspec.Struct, frozen=True):
    """A WebRTC answer as JSON."""

    sdp: str
    session: str
    type: Literal["answer"] = "answer"


class SessionView(msgspec.Struct, frozen=True):
    """A session, as the list shows it; `session` is shortened there, since who holds the whole may act on it."""

    session: str
    avatar: str
    source: str
    state: str
    canvas: int
    """Largest side of the video that was asked for."""
    speaking: bool
    queued_s: float
    """Speech that waits or is being heard."""


class SpeechAccepted(msgspec.Struct, frozen=True):
    speech: str
    seconds: float


class AvatarView(msgspec.Struct, frozen=True):
    """An avatar of the store."""

    id: str
    title: str
    width: int
    height: int
    cycle_frames: int
    state: Literal["ready", "preparing", "failed"]
    progress: float
    thumbnail: str
    error: str | None = None


class MakingView(msgspec.Struct, frozen=True):
    """An upload on its way to an avatar."""

    job: str
    avatar: str
    state: Literal["waiting", "running", "ready", "failed"]
    progress: float
    error: str | None
    report: dict[str, Any]
    """What precompilation found: grade, face size, pose, advice. Empty until the job is ready."""


class Sample(msgspec.Struct, frozen=True):
    """A bundled piece of speech."""

    id: str
    title: str
    url: str
    seconds: float
    text: str | None = None


class EngineView(msgspec.Struct, frozen=True):
    name: str
    ready: bool
    look_ahead_ms: float


class SlotsView(msgspec.Struct, frozen=True):
    active: int
    limit: int


class IceServerView(msgspec.Struct, frozen=True, omit_defaults=True):
    urls: tuple[str, ...]
    username: str | None = None
    credential: str | None = None


class Capabilities(msgspec.Struct, frozen=True):
    """What this server can do, for its page."""

    version: str
    engine: EngineView
    tts: tuple[str, ...]
    samples: tuple[Sample, ...]
    canvas: tuple[int, ...]
    sessions: SlotsView
    ice_servers: tuple[IceServerView, ...]


class Problem(msgspec.Struct, frozen=True):
    """RFC 9457."""

    type: str
    title: str
    status: int
    detail: str
