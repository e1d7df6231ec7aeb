"""Errors of the server. `http/errors.py` maps them to statuses, `cli.py` to exit codes."""

from __future__ import annotations


class StreamerError(Exception):
    """Root of everything that can go wrong in the server itself."""


class ConfigError(StreamerError):
    """A setting is wrong: where, and what to write instead."""

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(path, reason)
        self.path = path
        self.reason = reason

    def __str__(self) -> str:
        return f"{self.path}: {self.reason}"


class SignalingError(StreamerError):
    """The peer's offer or candidate cannot be used. `status` is the HTTP status it deserves."""

    def __init__(self, reason: str, status: int = 400) -> None:
        super().__init__(reason)
        self.reason = reason
        self.status = status

    def __str__(self) -> str:
        return self.reason


class FeedUnavailable(SignalingError):
    """A feed cannot be watched or published now. 404 unknown, 409 taken or nothing on it yet, 503 too many viewers."""

    def __init__(self, reason: str, status: int, retry_after_s: int | None = None) -> None:
        super().__init__(reason, status)
        self.retry_after_s = retry_after_s


class FloorError(SignalingError):
    """A roundtable cannot do what is asked of it. `status` as with SignalingError."""


class NotSigned(StreamerError):
    """A film is whole, but got no C2PA manifest."""

    def __init__(self, film: str, reason: str) -> None:
        super().__init__(film, reason)
        self.film = film
        self.reason = reason

    def __str__(self) -> str:
        return f"{self.film} is whole, but not signed: {self.reason}"


class SessionLimit(StreamerError):
    """No slot is free, or (`busy`) the engine, at the pace it has just now, has no time for one more."""

    def __init__(self, limit: int, retry_after_s: int = 5, *, busy: bool = False) -> None:
        super().__init__(limit)
        self.limit = limit
        self.retry_after_s = retry_after_s
        self.busy = busy

    def __str__(self) -> str:
        why = (
            f"this server is too busy for more than its {self.limit} sessions now"
            if self.busy
            else f"all {self.limit} sessions of this server are taken"
        )
        return f"{why}; try again in {self.retry_after_s} s"


class TooManyOffers(StreamerError):
    """One address asks for sessions faster than they are given."""

    def __init__(self, retry_after_s: int) -> None:
        super().__init__(retry_after_s)
        self.retry_after_s = retry_after_s

    def __str__(self) -> str:
        return f"too many offers from this address; try again in {self.retry_after_s} s"


class ServerDraining(StreamerError):
    """The server is about to stop and takes no more sessions."""

    def __init__(self, retry_after_s: int = 30) -> None:
        super().__init__(retry_after_s)
        self.retry_after_s = retry_after_s

    def __str__(self) -> str:
        return "the server is being stopped and takes no more sessions"


class MakingFull(StreamerError):
    """Too many uploads wait to be made into avatars."""

    def __init__(self, limit: int, retry_after_s: int = 20) -> None:
        super().__init__(limit)
        self.limit = limit
        self.retry_after_s = retry_after_s

    def __str__(self) -> str:
        return f"{self.limit} avatars wait to be made already; try again in {self.retry_after_s} s"


class SessionNotFound(StreamerError):
    """No session under this id (it may have ended)."""

    def __str__(self) -> str:
        return "there is no such session; it may have ended"


class SessionClosed(StreamerError):
    """The session has ended."""

    def __str__(self) -> str:
        return "the session has ended"


class PipelineStalled(StreamerError):
    """A stage made no progress for too long."""

    def __init__(self, stage: str, silent_ms: float) -> None:
        super().__init__(stage, silent_ms)
        self.stage = stage
        self.silent_ms = silent_ms

    def __str__(self) -> str:
        return f"stage {self.stage} made no progress for {self.silent_ms:.0f} ms"


class SpeechRejected(StreamerError):
    """A pushed sound cannot be spoken."""

    def __init__(self, reason: str, status: int = 400) -> None:
        super().__init__(reason)
        self.reason = reason
        self.status = status

    def __str__(self) -> str:
        return self.reason


class ServerRefused(StreamerError):
    """Another server of ours has refused a call: its status and its words."""

    def __init__(self, status: int, detail: str) -> None:
        super().__init__(status, detail)
        self.status = status
        self.detail = detail

    def __str__(self) -> str:
        return f"{self.detail} (status {self.status})"
