"""A feed: one viewer-facing stream. What is shown on it is encoded once a rung and goes to everybody who watches."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, replace

from streamer.broadcast.relay import Relay
from streamer.broadcast.rung import Rung, RungKey, half_size, has_half
from streamer.broadcast.strand import Strand
from streamer.clock import Clock, wall_clock_s
from streamer.media import FPS, Picture
from streamer.rtc.bitrate import nominal_bps
from streamer.rtc.encoder import picture_size_px
from streamer.rtc.reports import MediaClock
from streamer.rtc.threads import CodecThreads


@dataclass(frozen=True, slots=True)
class FeedStats:
    """A reading of one feed; counts since its start."""

    viewers: int
    rungs: int
    encoder_calls: int
    keyframes: int
    pictures_dropped: int


class Feed:
    """`show` never waits; `run` lives as long as the feed. All calls on one event loop."""

    def __init__(self, name: str, size_px: tuple[int, int], clock: Clock, codecs: CodecThreads) -> None:
        """`size_px`: (width, height) of the pictures to come, both even."""
        self.name = name
        self.size_px = size_px
        self.media = MediaClock()
        self.strand = Strand(clock, codecs)
        self.taps: list[Callable[[Picture], None]] = []
        """Called on the loop with every picture: recordings and the like. They must only deposit."""
        self._clock = clock
        self._codecs = codecs
        self._relays: set[Relay] = set()
        self._rungs: dict[RungKey, Rung] = {}
        self._group: asyncio.TaskGroup | None = None
        self._over = asyncio.Event()
        self.begun = asyncio.Event()
        """Something has been shown."""
        self._last_index = -1
        self._moved: int | None = 0
        """What is added to the source's indices; None: to be found out, for the source is a new one."""
        self._ended = [0, 0, 0]

    @property
    def live(self) -> bool:
        """Something has been shown, and the feed is not over."""
        return self.media.running and not self._over.is_set()

    @property
    def watched(self) -> bool:
        """Somebody takes the pictures: a viewer or a recording."""
        return bool(self.taps or self._rungs)

    @property
    def bitrates_bps(self) -> tuple[int, int]:
        """Of the full and the half-size rung."""
        full_bps = nominal_bps(self.size_px)
        return full_bps, nominal_bps(half_size(self.size_px)) if has_half(self.size_px) else full_bps

    @property
    def stats(self) -> FeedStats:
        counts = [rung.counts for rung in self._rungs.values()]
        calls, keyframes, dropped = self._ended
        return FeedStats(
            viewers=len(self._relays),
            rungs=len(self._rungs),
            encoder_calls=calls + sum(c.encoder_calls for c in counts),
            keyframes=keyframes + sum(c.keyframes for c in counts),
            pictures_dropped=dropped + sum(c.pictures_dropped for c in counts),
        )

    def source_changed(self) -> None:
        """What comes next is of another source with indices of its own: it goes on where the feed's clock is."""
        self._moved = None

    def show(self, picture: Picture) -> None:
        """The next picture with its sound."""
        now_ns = self._clock.now_ns()
        if self._moved is None:
            here = max(self._last_index + 1, self.media.pts(now_ns, FPS)) if self.media.running else picture.index
            self._moved = here - picture.index
        index = picture.index + self._moved
        if index <= self._last_index or self._over.is_set():
            return
        self._last_index = index
        self.size_px = picture_size_px(picture.planes)
        self.media.anchor(index, now_ns, wall_clock_s())
        self.begun.set()
        if self._moved:
            picture = replace(picture, index=index)
        for tap in tuple(self.taps):
            tap(picture)
        self.strand.hear(index, picture.pcm48)
        for rung in self._rungs.values():
            rung.show(picture)

    async def ended(self) -> None:
        """Return once the feed is over."""
        await self._over.wait()

    def relay(self, strand: Strand | None = None) -> Relay:
        """A viewer to be; it joins by itself once its media can flow."""
        return Relay(self, self._clock, strand)

    def join(self, relay: Relay) -> None:
        """Part of relay.Source."""
        self._relays.add(relay)

    def leave(self, relay: Relay) -> None:
        """Part of relay.Source."""
        self._relays.discard(relay)
        self.sweep()

    def rung(self, key: RungKey) -> Rung:
        """Part of relay.Source."""
        rung = self._rungs.get(key)
        if rung is None:
            rung = self._rungs[key] = Rung(key, self._clock, self._codecs)
            if self._group is not None and not self._over.is_set():
                self._group.create_task(rung.run(), name=f"rung-{self.name}")
        return rung

    def sweep(self) -> None:
        """Part of relay.Source."""
        for key in [key for key, rung in self._rungs.items() if not rung.takers]:
            rung = self._rungs.pop(key)
            rung.close()
            counts = rung.counts
            for place, count in enumerate((counts.encoder_calls, counts.keyframes, counts.pictures_dropped)):
                self._ended[place] += count

    async def run(self) -> None:
        """Encode for whoever watches, until `close`."""
        try:
            async with asyncio.TaskGroup() as group:
                self._group = group
                group.create_task(self.strand.run(), name=f"strand-{self.name}")
                for rung in self._rungs.values():
                    group.create_task(rung.run(), name=f"rung-{self.name}")
                await self._over.wait()
                self.strand.close()
                for rung in self._rungs.values():
                    rung.close()
        finally:
            self._group = None

    def close(self) -> None:
        """The feed is over; its viewers are to be hung up on. Idempotent."""
        self._over.set()
