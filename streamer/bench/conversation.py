"""`liveanchor bench conversation`: how soon a pushed speech is heard, and how soon an interrupted one is not.

The server is a process of its own; a visitor over real WebRTC hears and sees. An interrupt's time runs from the request
to the last audible sample or the last open mouth, whichever is later, with half a minute of speech still queued. A
swap's time runs from the request for another avatar at another size, in the middle of speech, to its first picture.
"""

from __future__ import annotations

import asyncio
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlencode

import numpy as np
import numpy.typing as npt

from streamer.app import web_folder
from streamer.bench.call import BurstCall, measure
from streamer.bench.lips import mouth_box
from streamer.bench.served import serve_command, served
from streamer.client import Call, Client
from streamer.clock import NS_PER_MS, NS_PER_S, MonotonicClock
from streamer.errors import StreamerError
from streamer.media import S16, SOUND_HZ, U8, SoundBlock
from streamer.pcm import wav_of
from streamer.soak.client import SeenPicture, Visit
from streamer.speech import decode_speech

AVATAR, CANVAS_PX = "ruby", 512
TRIALS = 60
QUEUED_S = 30.0
OPENING_S = 2.0
HEARD_S = 0.9
"""How long a trial is heard before it is interrupted."""
REST_S = 0.6
SWAPS = (("mateo", 256), ("blaze", 384), (AVATAR, CANVAS_PX)) * 5
SWAP_GAP_S = 0.5
BURSTS = 32
AUDIBLE = 300
"""Peak of a 20 ms block below which there is nothing to hear, full scale 32768."""
OPEN_SHARE = 0.25
"""A mouth that has gone this share of its usual way from rest is open."""
THINNED = 4
"""One pixel of so many is kept, across and down."""
MOVES = 12
"""Grey levels a pixel changes by where a mouth moves."""

F32 = npt.NDArray[np.float32]


@dataclass(slots=True)
class _Witness:
    """What the visitor heard and saw, with times; pictures are thinned to one pixel of sixteen, but for the first."""

    clock: MonotonicClock = field(default_factory=MonotonicClock)
    sounds: list[tuple[int, int]] = field(default_factory=list)
    pictures: list[tuple[int, U8]] = field(default_factory=list)
    first: U8 | None = None
    """Whole planes."""
    news: asyncio.Event = field(default_factory=asyncio.Event)

    def hear(self, block: SoundBlock) -> None:
        self.sounds.append((self.clock.now_ns(), int(np.abs(block.pcm48.astype(np.int32)).max())))
        self.news.set()

    def see(self, picture: SeenPicture) -> None:
        if self.first is None:
            self.first = picture.planes.copy()
        height = picture.planes.shape[0] * 2 // 3
        self.pictures.append((picture.decoded_ns, picture.planes[:height:THINNED, ::THINNED].copy()))
        self.news.set()

    async def heard_after(self, since_ns: int) -> int:
        """When the first audible block after a time came."""
        while True:
            found = next((at for at, peak in self.sounds if at > since_ns and peak > AUDIBLE), None)
            if found is not None:
                return found
            self.news.clear()
            await self.news.wait()

    async def seen_of(self, side_px: int, number: int) -> int:
        """When the first picture of this height came, from picture `number` on."""
        while True:
            for at, picture in self.pictures[number:]:
                if picture.shape[0] == side_px // THINNED:
                    return at
            number = len(self.pictures)
            self.news.clear()
            await self.news.wait()


@dataclass(frozen=True, slots=True)
class _Trial:
    pushed_ns: int
    heard_ns: int
    interrupted_ns: int
    over_ns: int


def run() -> dict[str, float]:
    """All figures, milliseconds. About three minutes."""
    # The mouth's way is read from what differs from rest, so the head keeps still.
    with tempfile.TemporaryDirectory() as store, served(serve_command(Path(store), ("--no-sway",))) as server:
        query = urlencode({"avatar": AVATAR, "source": "mirror", "canvas": CANVAS_PX})
        bursts = measure(BurstCall(f"{server.url}api/sessions?{query}", square=False, bursts=BURSTS, seed=4))
        witness, trials, offsets = asyncio.run(_converse(server.url))
        swaps = asyncio.run(_swap(server.url))
    ears = [value for value in bursts.to_ear_ms if value is not None]
    if not ears or not offsets:
        raise StreamerError("nothing came through: the machine is too busy to measure anything")
    first = [(t.heard_ns - t.pushed_ns) / NS_PER_MS for t in trials]
    sound = [_last_sound_ms(t, witness) for t in trials]
    lips = _last_open_ms(trials, witness)
    either = [max(pair) for pair in zip(sound, lips, strict=True)]
    return {
        "interrupt_p50_ms": _share(either, 50),
        "interrupt_p95_ms": _share(either, 95),
        "interrupt_p99_ms": _share(either, 99),
        "interrupt_sound_p95_ms": _share(sound, 95),
        "interrupt_lips_p95_ms": _share(lips, 95),
        "interrupt_trials": len(trials),
        "first_sound_median_ms": _share(first, 50),
        "first_sound_p95_ms": _share(first, 95),
        "first_sound_p99_ms": _share(first, 99),
        "mic_to_ear_median_ms": _share(ears, 50),
        "mic_to_ear_p95_ms": _share(ears, 95),
        "mic_to_ear_p99_ms": _share(ears, 99),
        "swap_ms": _share(swaps, 50),
        "swap_p95_ms": _share(swaps, 95),
        "swap_max_ms": max(swaps),
        "av_offset_abs_max_ms": max(abs(value) for value in offsets),
    }


async def _converse(url: str) -> tuple[_Witness, list[_Trial], list[float]]:
    witness, trials, offsets = _Witness(), [], []
    visit = Visit(on_sound=witness.hear, on_picture=witness.see)
    opening, rest = _speech()
    async with Client(url) as client, client.call(AVATAR, visit, canvas_px=CANVAS_PX) as call:
        await witness.clock.sleep_until(witness.clock.now_ns() + NS_PER_S)
        for _ in range(TRIALS):
            trials.append(await _trial(call, witness, opening, rest))
            offsets += _offsets(call)
    return witness, trials, offsets


async def _trial(call: Call, witness: _Witness, opening: bytes, rest: bytes) -> _Trial:
    clock = witness.clock
    pushed_ns = clock.now_ns()
    await call.session.speak(opening, "audio/wav")
    heard_ns = await witness.heard_after(pushed_ns)
    await call.session.speak(rest, "audio/wav")
    await clock.sleep_until(heard_ns + int(HEARD_S * NS_PER_S))
    interrupted_ns = clock.now_ns()
    await call.session.interrupt()
    await clock.sleep_until(interrupted_ns + int(REST_S * NS_PER_S))
    return _Trial(pushed_ns, heard_ns, interrupted_ns, clock.now_ns())


async def _swap(url: str) -> list[float]:
    """How long each swap took, the first ones with avatars that were not on stage before, ms."""
    witness, found = _Witness(), []
    visit = Visit(on_sound=witness.hear, on_picture=witness.see)
    async with Client(url) as client, client.call(AVATAR, visit, canvas_px=CANVAS_PX) as call:
        await call.session.speak(_speech()[1], "audio/wav")
        await witness.heard_after(0)
        for avatar, canvas_px in SWAPS:
            await witness.clock.sleep_until(witness.clock.now_ns() + int(SWAP_GAP_S * NS_PER_S))
            asked_ns, before = witness.clock.now_ns(), len(witness.pictures)
            await call.session.recast(avatar, canvas_px)
            found.append((await witness.seen_of(canvas_px, before) - asked_ns) / NS_PER_MS)
    return found


def _offsets(call: Call) -> list[float]:
    found = []
    while (message := call.visitor.telemetry.get_nowait()) is not None:
        offset = message.get("av_offset_ms")
        if isinstance(offset, int | float):
            found.append(float(offset))
    return found


def _speech() -> tuple[bytes, bytes]:
    """A sentence, and half a minute to be queued behind it, as WAV files."""
    sample = decode_speech((web_folder() / "samples" / "evening-news.ogg").read_bytes(), None)
    sample = sample[np.flatnonzero(np.abs(sample) > AUDIBLE)[0] :]
    whole: S16 = np.tile(sample, 2 + int(QUEUED_S * SOUND_HZ) // len(sample))
    cut = int(OPENING_S * SOUND_HZ)
    return wav_of(whole[:cut]), wav_of(whole[cut : cut + int(QUEUED_S * SOUND_HZ)])


def _last_sound_ms(trial: _Trial, witness: _Witness) -> float:
    loud = [at for at, peak in witness.sounds if trial.interrupted_ns < at <= trial.over_ns and peak > AUDIBLE]
    return (max(loud, default=trial.interrupted_ns) - trial.interrupted_ns) / NS_PER_MS


def _last_open_ms(trials: list[_Trial], witness: _Witness) -> list[float]:
    """For each trial, when the mouth was last open after the interrupt. Eyes blink and glance meanwhile: not looked at.

    Raises StreamerError where there was no face.
    """
    if witness.first is None:
        raise StreamerError("no picture came")
    x1, y1, x2, y2 = (edge // THINNED for edge in mouth_box(witness.first))
    pictures = [(at, picture[y1:y2, x1:x2]) for at, picture in witness.pictures]
    before_ns = trials[0].pushed_ns
    rest: F32 = np.median([p for at, p in pictures if at < before_ns], axis=0).astype(np.float32)
    spoken = [p for at, p in pictures if any(t.heard_ns < at < t.interrupted_ns for t in trials[:5])]
    moving = np.max([np.abs(p - rest) for p in spoken], axis=0) > MOVES
    gaps = [(at, float(np.abs(p[moving] - rest[moving]).mean())) for at, p in pictures]
    usual = float(np.median([np.abs(p[moving] - rest[moving]).mean() for p in spoken]))
    found = []
    for t in trials:
        wide = [at for at, gap in gaps if t.interrupted_ns < at <= t.over_ns and gap > OPEN_SHARE * usual]
        found.append((max(wide, default=t.interrupted_ns) - t.interrupted_ns) / NS_PER_MS)
    return found


def _share(values: list[float], percent: float) -> float:
    return float(np.percentile(values, percent))
