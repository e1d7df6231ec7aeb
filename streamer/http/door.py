"""The door for offers of every kind: one address that brings too many is told to wait. Knows no feed and no room."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager

from aiohttp import web

from streamer.admission import OfferGate
from streamer.clock import Clock
from streamer.config import LimitsConfig
from streamer.errors import TooManyOffers
from streamer.telemetry.metrics import Metrics


class OfferDoor:
    """One for all routes that answer offers: a flood is a flood, whatever it is for."""

    def __init__(self, limits: LimitsConfig, metrics: Metrics, clock: Clock) -> None:
        self._gate = OfferGate(limits.offers_per_s, limits.offers_burst)
        self._metrics = metrics
        self._clock = clock

    @contextmanager
    def offer(self, request: web.Request) -> Iterator[None]:
        """Answer one offer in the block, its body not yet read: a flood costs as little as it can.

        Raises TooManyOffers; refusals are counted, the block's own too.
        """
        with self._metrics.counting_rejections():
            wait_s = self._gate.wait_s(request.remote or "", self._clock.now_ns())
            if wait_s is not None:
                raise TooManyOffers(math.ceil(wait_s))
            yield
