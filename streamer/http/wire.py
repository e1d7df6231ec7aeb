"""What goes over HTTP, as structs. The OpenAPI document is made from these."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from streamer.roundtable.arrangement import Layout
from streamer.roundtable.floor import FloorMode


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


class FeedView(msgspec.Struct, frozen=True):
    """A feed that can be watched."""

    feed: str
    live: bool
    width: int
    height: int
    viewers: int
    rungs: int
    """Encoders at work, however many watch."""
    encoder_calls: int


class LayoutChange(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Another layout of a room. `featured`: who stays in its focus; nobody: who speaks."""

    layout: Layout
    featured: tuple[str, ...] = ()


class FloorChange(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Another way to decide who may speak."""

    mode: FloorMode


class SeatView(msgspec.Struct, frozen=True):
    """A seat of a room."""

    seat: str
    avatar: str
    name: str
    role: str
    source: str
    occupied: bool
    heard: bool
    """What it says is heard: it has the floor and is not muted."""
    muted: bool
    granted: bool
    hand: bool
    speaking: bool
    level: float
    """RMS, full scale 1; heard or not."""
    gain_db: float
    queued_s: float
    repeated: int
    """Frames for which its picture came too late."""


class RoomView(msgspec.Struct, frozen=True):
    """A room as it is now."""

    room: str
    title: str
    width: int
    height: int
    layout: Layout
    featured: tuple[str, ...]
    floor: FloorMode
    hands: tuple[str, ...]
    turns: tuple[str, ...]
    active: str | None
    """Who is heard now."""
    viewers: int
    frames: int
    lay_ms: float
    """CPU milliseconds a frame takes to draw and mix, on average."""
    seats: tuple[SeatView, ...]


class RecordingView(msgspec.Struct, frozen=True):
    """A recording, or a feed pushed out."""

    recording: str
    source: str
    file: str
    state: str
    """recording, finished or failed."""
    error: str | None
    seconds: float
    missing: int
    """Frames that never came."""
    given_up: int
    """Frames whose sound alone was written: the machine was too busy for the picture."""
    signed: bool
    """It has its C2PA manifest; where it could not get one, `error` says why and the film is whole."""


class PushOrder(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Where a feed is pushed to."""

    feed: str
    url: str
    token: str | None = None
    """For WHIP."""


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
