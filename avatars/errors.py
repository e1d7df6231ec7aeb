"""Errors of avatars: packets, faces, portraits. Each keeps its facts in attributes and builds its text in `__str__`."""

from __future__ import annotations

from collections.abc import Iterable


class AvatarError(Exception):
    """Root of everything that can be wrong with an avatar."""


class PacketMissing(AvatarError):
    """No packet under this id."""

    def __init__(self, avatar_id: str) -> None:
        super().__init__(avatar_id)
        self.avatar_id = avatar_id

    def __str__(self) -> str:
        return f"there is no avatar named {self.avatar_id!r}"


class PacketInvalid(AvatarError):
    """A packet is refused: which field, what was expected, what was found."""

    def __init__(self, field: str, expected: str, found: str) -> None:
        super().__init__(field, expected, found)
        self.field = field
        self.expected = expected
        self.found = found

    def __str__(self) -> str:
        return f"avatar packet refused: {self.field}: expected {self.expected}, found {self.found}"


class AvatarIdInvalid(PacketInvalid):
    """The id cannot name a folder; ids come from outside."""

    def __init__(self, avatar_id: str) -> None:
        super().__init__("avatar id", "1 to 64 of a-z 0-9 _ -, starting with a letter or digit", repr(avatar_id[:80]))


class AvatarIdReserved(AvatarIdInvalid):
    """The id is an address of the server itself: an avatar of that name could not be reached."""

    def __init__(self, avatar_id: str, reserved: Iterable[str]) -> None:
        PacketInvalid.__init__(self, "avatar id", f"another name than {', '.join(sorted(reserved))}", repr(avatar_id))

    def __str__(self) -> str:
        return f"an avatar cannot be named {self.found}, which is an address of the server: {self.expected}, please"


class PacketVersion(AvatarError):
    """The packet was written by a version this one cannot read."""

    def __init__(self, expected: int, found: object) -> None:
        super().__init__(expected, found)
        self.expected = expected
        self.found = found

    def __str__(self) -> str:
        return (
            f"avatar packet has version {self.found}, this program reads version {self.expected}: precompile it again"
        )


class FaceNotFound(AvatarError):
    """No face in the picture, or not the one that was asked for."""

    def __init__(self, source: str, remedy: str = "use a picture with one clear, front-facing face") -> None:
        super().__init__(source, remedy)
        self.source = source
        self.remedy = remedy

    def __str__(self) -> str:
        return f"no face found in {self.source}: {self.remedy}"


class PortraitRejected(AvatarError):
    """The picture cannot become an avatar; `reason` says why and `remedy` what to do."""

    def __init__(self, source: str, reason: str, remedy: str) -> None:
        super().__init__(source, reason, remedy)
        self.source = source
        self.reason = reason
        self.remedy = remedy

    def __str__(self) -> str:
        return f"{self.source}: {self.reason}: {self.remedy}"


class PacketUnwritable(AvatarError):
    """A packet could not be put on disk; the one that was there, if any, is untouched."""

    def __init__(self, avatar_id: str, reason: str) -> None:
        super().__init__(avatar_id, reason)
        self.avatar_id = avatar_id
        self.reason = reason

    def __str__(self) -> str:
        return f"avatar {self.avatar_id!r} could not be written: {self.reason}"
