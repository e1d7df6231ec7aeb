"""A bad network as a rule: which datagrams are lost and when the others come out. Pure: takes sizes and `now_ns`."""

from __future__ import annotations

import random

import msgspec

from streamer.clock import NS_PER_MS, NS_PER_S
from streamer.errors import ConfigError

BUFFER_NS = 300 * NS_PER_MS
"""What a narrow link queues before it drops."""
HELD_BACK_NS = (8 * NS_PER_MS, 30 * NS_PER_MS)
"""How much later than its neighbours a reordered datagram comes."""


class Impairment(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One direction of a link. All zero: a perfect one."""

    loss_percent: float = 0.0
    delay_ms: float = 0.0
    jitter_ms: float = 0.0
    """Delay varies evenly by so much up and down; order is kept."""
    reorder_percent: float = 0.0
    rate_kbps: float = 0.0
    """0: as wide as it likes."""
    blackouts_s: tuple[tuple[float, float], ...] = ()
    """(start, length) in seconds since the link was made: nothing passes."""

    @property
    def perfect(self) -> bool:
        return self == Impairment()


_NAMES = {
    "loss": "loss_percent", "delay": "delay_ms", "jitter": "jitter_ms", "reorder": "reorder_percent",
    "rate": "rate_kbps",
}  # fmt: skip


def read_impairment(text: str) -> Impairment:
    """`loss=5,delay=50,jitter=5,reorder=1,rate=300,blackout=20:5` (%, ms, ms, %, kbit/s, start:seconds).

    `blackout` may stand more than once. Raises ConfigError.
    """
    values: dict[str, float] = {}
    blackouts: list[tuple[float, float]] = []
    for part in filter(None, (p.strip() for p in text.split(","))):
        name, _, value = part.partition("=")
        try:
            if name == "blackout":
                start, _, length = value.partition(":")
                blackouts.append((_positive(start), _positive(length)))
            else:
                values[_NAMES[name]] = _positive(value)
        except KeyError:
            raise ConfigError("--net", f"{name} is none of {', '.join([*_NAMES, 'blackout'])}") from None
        except ValueError:
            raise ConfigError("--net", f"{part}: write for example loss=5,delay=50,blackout=20:5") from None
    if values.get("loss_percent", 0) > 100 or values.get("reorder_percent", 0) > 100:
        raise ConfigError("--net", "loss and reorder are percentages")
    return Impairment(**values, blackouts_s=tuple(blackouts))


def _positive(text: str) -> float:
    value = float(text)
    if not 0 <= value < 1e6:
        raise ValueError(text)
    return value


class Shaper:
    """Decides about one direction. The same seed and calls give the same decisions."""

    def __init__(self, impairment: Impairment, seed: int, start_ns: int) -> None:
        self._rule = impairment
        self._draw = random.Random(seed)
        self._start_ns = start_ns
        self._link_free_ns = 0
        self._last_out_ns = 0
        self.passed = 0
        self.lost = 0

    def admit(self, size_bytes: int, now_ns: int) -> int | None:
        """When a datagram that comes now goes out; None: never."""
        out_ns = None if self._lost(now_ns) else self._through(size_bytes, now_ns)
        if out_ns is None:
            self.lost += 1
        else:
            self.passed += 1
        return out_ns

    def _lost(self, now_ns: int) -> bool:
        since_s = (now_ns - self._start_ns) / NS_PER_S
        if any(start <= since_s < start + length for start, length in self._rule.blackouts_s):
            return True
        return self._draw.random() * 100 < self._rule.loss_percent

    def _through(self, size_bytes: int, now_ns: int) -> int | None:
        rule = self._rule
        sent_ns = now_ns
        if rule.rate_kbps:
            begin_ns = max(now_ns, self._link_free_ns)
            if begin_ns - now_ns > BUFFER_NS:
                return None
            self._link_free_ns = sent_ns = begin_ns + int(size_bytes * 8 * NS_PER_MS / rule.rate_kbps)
        jitter_ms = self._draw.uniform(-rule.jitter_ms, rule.jitter_ms)
        out_ns = sent_ns + max(0, int((rule.delay_ms + jitter_ms) * NS_PER_MS))
        if self._draw.random() * 100 < rule.reorder_percent:
            return out_ns + self._draw.randint(*HELD_BACK_NS)
        self._last_out_ns = max(self._last_out_ns, out_ns)
        return self._last_out_ns
