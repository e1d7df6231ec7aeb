"""The badge that says what a picture is, such as "AI": in the upper right corner of every frame. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field

from avatars.blend import Box
from avatars.colour import Planes, split_planes
from streamer.config import check_badge
from streamer.graphics.lettering import Lettering
from streamer.graphics.overlay import Overlay, badge, lay
from streamer.media import U8


@dataclass(frozen=True, slots=True)
class Badge:
    """Words that go onto pictures of any size; an `avatars.canvas.Mark`."""

    words: str
    lettering: Lettering = field(default_factory=Lettering)

    def rect(self, size_px: tuple[int, int]) -> Box:
        """Where it lies in a picture of (width, height), both even; edges even."""
        width, height = size_px
        overlay = self._overlay(size_px)
        x, y = max(0, width - overlay.size_px[0] - width // 60) // 2 * 2, height // 50 * 2
        return x, y, min(width, x + overlay.size_px[0]), min(height, y + overlay.size_px[1])

    def lay(self, planes: Planes) -> None:
        """Over a picture, in place."""
        height, width = planes.y.shape
        x, y, _, _ = self.rect((width, height))
        lay(self._overlay((width, height)), planes, x, y)

    def _overlay(self, size_px: tuple[int, int]) -> Overlay:
        return badge(self.words, size_px, self.lettering)


class Marker:
    """Puts a badge onto copies of pictures; one that comes again is not copied again."""

    def __init__(self, mark: Badge) -> None:
        self._mark = mark
        self._last: tuple[U8, U8] | None = None

    def marked(self, planes: U8) -> U8:
        """(H * 3 // 2, W) u8 I420 with the badge, read-only."""
        if self._last is None or self._last[0] is not planes:
            copy = planes.copy()
            self._mark.lay(split_planes(copy))
            copy.flags.writeable = False
            self._last = planes, copy
        return self._last[1]


def chosen(always: str | None, asked: str | None) -> Badge | None:
    """The badge of a session or film: what the server puts on all, or what was asked for. Raises ConfigError."""
    words = always if always is not None else asked
    return Badge(check_badge(words)) if words is not None else None
