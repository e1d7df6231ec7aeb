"""The OpenAPI 3.1 document, made from the wire structs and one table of operations."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import msgspec

from streamer.http import wire
from streamer.roundtable.description import RoomDescription

_SESSION = {"name": "session", "in": "path", "required": True, "schema": {"type": "string"}}
_JOB = {"name": "job", "in": "path", "required": True, "schema": {"type": "string"}}
_AVATAR = {"name": "avatar", "in": "path", "required": True, "schema": {"type": "string"}}
_FEED = {"name": "feed", "in": "path", "required": True, "schema": {"type": "string"}}
_ROOM = {"name": "room", "in": "path", "required": True, "schema": {"type": "string"}}
_SEAT = {"name": "seat", "in": "path", "required": True, "schema": {"type": "string"}}
_ACTION = {"name": "action", "in": "path", "required": True, "schema": {"type": "string"}}
_RECORDING = {"name": "recording", "in": "path", "required": True, "schema": {"type": "string"}}
_VIEWER = {"name": "viewer", "in": "path", "required": True, "schema": {"type": "string"}}


def _query(name: str, schema: dict[str, Any], *, required: bool = False) -> dict[str, Any]:
    return {"name": name, "in": "query", "required": required, "schema": schema}


@dataclass(frozen=True, slots=True)
class Operation:
    """One call: what it takes and gives. `body` and `gives` map content types to structs, or None for raw bytes."""

    method: str
    path: str
    summary: str
    status: int = 200
    parameters: tuple[dict[str, Any], ...] = ()
    body: tuple[tuple[str, type | None], ...] = ()
    gives: tuple[tuple[str, type | None], ...] = ()
    problems: tuple[int, ...] = ()


_JSON = "application/json"
OPERATIONS: tuple[Operation, ...] = (
    Operation("get", "/healthz", "The process is alive.", gives=((_JSON, None),)),
    Operation("get", "/readyz", "A session would get a moving face.", gives=((_JSON, None),), problems=(503,)),
    Operation("get", "/metrics", "Prometheus metrics.", gives=(("text/plain", None),)),
    Operation("get", "/api/capabilities", "What this server can do.", gives=((_JSON, wire.Capabilities),)),
    Operation("get", "/api/avatars", "All avatars.", gives=((_JSON, None),)),
    Operation("get", "/api/avatars/{avatar}", "One avatar.", parameters=(_AVATAR,), gives=((_JSON, wire.AvatarView),), problems=(404,)),
    Operation("get", "/api/avatars/{avatar}/thumbnail", "Its picture.", parameters=(_AVATAR,), gives=(("image/jpeg", None),), problems=(404,)),
    Operation("post", "/api/avatars", "Make an avatar of a portrait or clip.", status=202, parameters=(_query("avatar", {"type": "string"}, required=True), _query("notify", {"type": "string", "format": "uri"})), body=(("image/*", None), ("video/*", None), ("application/octet-stream", None)), gives=((_JSON, wire.MakingView),), problems=(400, 413, 415, 503)),
    Operation("get", "/api/avatars/jobs/{job}", "How far the making of an avatar is.", parameters=(_JOB,), gives=((_JSON, wire.MakingView),), problems=(404,)),
    Operation("delete", "/api/avatars/{avatar}", "Delete an avatar.", status=204, parameters=(_AVATAR,), problems=(400, 404)),
    Operation("post", "/api/avatars/{avatar}/render", "A sound as a talking film.", parameters=(_AVATAR, _query("canvas", {"type": "integer"}), _query("badge", {"type": "string"})), body=(("audio/wav", None), ("audio/flac", None), ("audio/mpeg", None), ("audio/ogg", None)), gives=(("video/mp4", None),), problems=(400, 404, 413, 415, 503)),
    Operation("post", "/api/avatars/clear", "Flush the in-memory pool.", gives=((_JSON, None),)),
    Operation(
        "post", "/api/sessions", "Open a session with a WebRTC offer.", status=201,
        parameters=(
            _query("avatar", {"type": "string"}, required=True),
            _query("source", {"enum": ["mirror", "agent", "none"], "default": "mirror"}),
            _query("canvas", {"type": "integer"}),
            _query("feed", {"type": "string"}),
            _query("badge", {"type": "string"}),
        ),
        body=(("application/sdp", None), (_JSON, wire.SdpOffer)),
        gives=(("application/sdp", None), (_JSON, wire.SdpAnswer)),
        problems=(400, 404, 413, 415, 429, 503),
    ),
    Operation("get", "/api/feeds", "What can be watched.", gives=((_JSON, None),)),
    Operation("post", "/whep/{feed}", "Watch a feed (WHEP).", status=201, parameters=(_FEED,), body=(("application/sdp", None),), gives=(("application/sdp", None),), problems=(400, 404, 406, 409, 415, 429, 503)),
    Operation("options", "/whep/{feed}", "What the endpoint takes, and the ICE servers.", parameters=(_FEED,)),
    Operation("patch", "/whep/{feed}/{viewer}", "Trickle ICE candidates.", status=204, parameters=(_FEED, _VIEWER), body=(("application/trickle-ice-sdpfrag", None),), problems=(400, 404, 412, 415, 422, 428)),
    Operation("delete", "/whep/{feed}/{viewer}", "Stop watching.", parameters=(_FEED, _VIEWER), problems=(404,)),
    Operation("post", "/whip/{feed}", "Publish a voice (WHIP).", status=201, parameters=(_FEED, _query("avatar", {"type": "string"}), _query("canvas", {"type": "integer"}), _query("badge", {"type": "string"})), body=(("application/sdp", None),), gives=(("application/sdp", None),), problems=(400, 404, 406, 409, 415, 429, 503)),
    Operation("options", "/whip/{feed}", "What the endpoint takes, and the ICE servers.", parameters=(_FEED,)),
    Operation("patch", "/whip/{feed}/{session}", "Trickle ICE candidates.", status=204, parameters=(_FEED, _SESSION), body=(("application/trickle-ice-sdpfrag", None),), problems=(400, 404, 412, 415, 422, 428)),
    Operation("delete", "/whip/{feed}/{session}", "Stop publishing.", parameters=(_FEED, _SESSION), problems=(404,)),
    Operation("get", "/api/rooms", "Rooms.", gives=((_JSON, None),)),
    Operation("post", "/api/rooms", "Open a room of a description; see docs/roundtable.md.", status=201, parameters=(_query("room", {"type": "string"}, required=True),), body=((_JSON, RoomDescription),), gives=((_JSON, wire.RoomView),), problems=(400, 404, 409, 413, 503)),
    Operation("get", "/api/rooms/{room}", "A room as it is now.", parameters=(_ROOM,), gives=((_JSON, wire.RoomView),), problems=(404,)),
    Operation("delete", "/api/rooms/{room}", "End a room.", status=204, parameters=(_ROOM,), problems=(404,)),
    Operation("get", "/api/rooms/{room}/events", "Its state five times a second, as Server-Sent Events.", parameters=(_ROOM,), gives=(("text/event-stream", None),), problems=(404,)),
    Operation("post", "/api/rooms/{room}/layout", "Another layout.", parameters=(_ROOM,), body=((_JSON, wire.LayoutChange),), gives=((_JSON, wire.RoomView),), problems=(400, 404)),
    Operation("post", "/api/rooms/{room}/floor", "Another way to decide who speaks.", parameters=(_ROOM,), body=((_JSON, wire.FloorChange),), gives=((_JSON, wire.RoomView),), problems=(400, 404)),
    Operation("post", "/api/rooms/{room}/seats/{seat}/{action}", "hand, lower, grant, revoke, mute, unmute, interrupt or gain?db=.", parameters=(_ROOM, _SEAT, _ACTION), gives=((_JSON, wire.SeatView),), problems=(400, 404)),
    Operation("post", "/api/rooms/{room}/seats/{seat}/speech", "Let a seat speak, now or in its turn.", status=202, parameters=(_ROOM, _SEAT), body=(("audio/wav", None), ("audio/ogg", None), ("text/plain", None)), gives=((_JSON, None),), problems=(400, 404, 409, 413, 415, 501)),
    Operation("post", "/api/rooms/{room}/seats/{seat}/join", "Sit down with a microphone.", status=201, parameters=(_ROOM, _SEAT), body=(("application/sdp", None),), gives=(("application/sdp", None),), problems=(400, 404, 409, 415, 429)),
    Operation("get", "/api/recordings", "Recordings, and feeds pushed out.", gives=((_JSON, None),)),
    Operation("post", "/api/recordings", "Record a feed or a session.", status=201, parameters=(_query("feed", {"type": "string"}), _query("session", {"type": "string"}), _query("format", {"enum": ["mp4", "webm"], "default": "mp4"}), _query("badge", {"type": "string"})), gives=((_JSON, wire.RecordingView),), problems=(400, 404, 503, 507)),
    Operation("delete", "/api/recordings/{recording}", "Stop; the file stays.", status=202, parameters=(_RECORDING,), gives=((_JSON, wire.RecordingView),), problems=(404,)),
    Operation("get", "/api/recordings/{recording}/file", "The film.", parameters=(_RECORDING,), gives=(("video/mp4", None), ("video/webm", None)), problems=(404,)),
    Operation("post", "/api/pushes", "Push a feed to an RTMP server.", status=201, body=((_JSON, wire.PushOrder),), gives=((_JSON, wire.RecordingView),), problems=(400, 403, 404, 503)),
    Operation("get", "/api/sessions", "Sessions, ids shortened.", gives=((_JSON, None),)),
    Operation("get", "/api/sessions/{session}", "One session.", parameters=(_SESSION,), gives=((_JSON, wire.SessionView),), problems=(404,)),
    Operation("patch", "/api/sessions/{session}", "Trickle ICE candidates.", status=204, parameters=(_SESSION,), body=(("application/trickle-ice-sdpfrag", None),), problems=(400, 404, 413, 415)),
    Operation("delete", "/api/sessions/{session}", "Hang up.", status=204, parameters=(_SESSION,), problems=(404,)),
    Operation(
        "post", "/api/sessions/{session}/speech", "Speak a sound or a text.", status=202, parameters=(_SESSION,),
        body=(("audio/wav", None), ("audio/flac", None), ("audio/mpeg", None), ("audio/ogg", None), ("text/plain", None)),
        gives=((_JSON, wire.SpeechAccepted),), problems=(400, 404, 409, 413, 415, 501),
    ),
    Operation("get", "/api/sessions/{session}/speech", "WebSocket: speak PCM while it is being made.", status=101, parameters=(_SESSION,), problems=(404, 409, 426)),
    Operation("post", "/api/sessions/{session}/interrupt", "Stop speaking.", status=202, parameters=(_SESSION,), problems=(404,)),
    Operation(
        "get", "/api/sessions/{session}/events", "What happens, as Server-Sent Events.",
        parameters=(_SESSION, _query("after", {"type": "integer", "default": 0})),
        gives=(("text/event-stream", None),), problems=(400, 404),
    ),
    Operation(
        "post", "/api/sessions/{session}/avatar", "Go on with another avatar or size.",
        parameters=(_SESSION, _query("avatar", {"type": "string"}), _query("canvas", {"type": "integer"})),
        gives=((_JSON, wire.SessionView),), problems=(400, 404, 409, 410),
    ),
    Operation(
        "post", "/api/sessions/{session}/action", "Play a clip of the avatar between two utterances.", status=202,
        parameters=(_SESSION, _query("name", {"type": "string"}, required=True)), problems=(400, 404, 409, 410),
    ),
)  # fmt: skip


def document(version: str, *, with_token: bool) -> dict[str, Any]:
    """The whole document, JSON-ready."""
    structs = sorted(
        {kind for op in OPERATIONS for _, kind in (*op.body, *op.gives) if kind is not None} | {wire.Problem},
        key=lambda kind: kind.__name__,
    )
    _, components = msgspec.json.schema_components(structs, ref_template="#/components/schemas/{name}")
    paths: dict[str, Any] = {}
    for operation in OPERATIONS:
        paths.setdefault(operation.path, {})[operation.method] = _operation(operation)
    found: dict[str, Any] = {
        "openapi": "3.1.0",
        "info": {
            "title": "liveanchor",
            "version": version,
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "paths": paths,
        "components": {"schemas": components, "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}}},
    }
    if with_token:
        found["security"] = [{"token": []}]
    return found


def _operation(operation: Operation) -> dict[str, Any]:
    responses: dict[str, Any] = {str(operation.status): {"description": operation.summary}}
    if operation.gives:
        responses[str(operation.status)]["content"] = _content(operation.gives)
    of_bodies = (408, 413) if operation.body else ()
    for status in sorted({*operation.problems, *of_bodies, 401, 403}):
        responses[str(status)] = {
            "description": "problem",
            "content": {"application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}}},
        }
    found: dict[str, Any] = {"summary": operation.summary, "responses": responses}
    if operation.parameters:
        found["parameters"] = list(operation.parameters)
    if operation.body:
        found["requestBody"] = {"required": True, "content": _content(operation.body)}
    return found


def _content(kinds: tuple[tuple[str, type | None], ...]) -> dict[str, Any]:
    return {
        content_type: {"schema": {"$ref": f"#/components/schemas/{kind.__name__}"}} if kind else {}
        for content_type, kind in kinds
    }
