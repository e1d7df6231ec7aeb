"""Where a session's pictures go and its sound comes from, as the session sees it: a peer, or a seat of a roundtable."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

from streamer.channel import Channel
from streamer.media import Picture, SoundBlock


class OutletStats(Protocol):
    """A reading of now."""

    @property
    def bytes_sent(self) -> int: ...

    @property
    def rtt_ms(self) -> float | None: ...


class Outlet(Protocol):
    """`rtc.peer.Peer` is one. All calls on one event loop."""

    on_sent: Callable[[Picture], None] | None

    @property
    def inbound(self) -> Channel[SoundBlock]: ...

    @property
    def control(self) -> Channel[dict[str, object]]: ...

    @property
    def stats(self) -> OutletStats: ...

    async def connected(self, timeout_ns: int) -> None: ...

    async def run(self) -> None: ...

    async def until_gone(self) -> None: ...

    async def close(self) -> None: ...

    async def add_candidates(self, fragment: str) -> None: ...

    def show(self, picture: Picture) -> None: ...

    def send_event(self, message: Mapping[str, object]) -> None: ...

    def check_size(self, size_px: tuple[int, int]) -> None: ...

    def hang_up(self) -> None: ...
