"""Checks of what a session is made of: dependencies, codecs, engine, avatars, voices."""

from __future__ import annotations

from importlib import metadata

import numpy as np

from avatars.store import AvatarStore
from engines import catalog
from engines.errors import EngineError
from streamer.clock import NS_PER_MS, MonotonicClock
from streamer.config import Config
from streamer.doctor.finding import Finding, bad, good, warn
from streamer.rtc import aiortc_hooks
from streamer.rtc.encoder import SoundEncoder, VideoCodec, VideoEncoder
from streamer.rtc.settings import VIDEO_CODECS

PACKAGES = ("aiortc", "aioice", "av", "aiohttp", "numpy", "opencv-python-headless")
PICTURES = 10
FRAME_MS = 40.0


def packages() -> Finding:
    """Versions, and whether aiortc's inside is what this release was made for."""
    versions = ", ".join(f"{name} {metadata.version(name)}" for name in PACKAGES)
    try:
        aiortc_hooks.check()
    except RuntimeError as error:
        return bad("packages", str(error), "install the pinned versions: pip install -e . (or the wheel) again")
    return good("packages", versions)


def codecs() -> list[Finding]:
    """Each codec encodes a little of a moving picture, at 512 x 512."""
    noise = np.random.default_rng(1).integers(60, 200, (768, 512), np.uint8)
    lines = []
    for name in VIDEO_CODECS:
        encoder, clock = VideoEncoder(), MonotonicClock()
        began_ns = clock.now_ns()
        try:
            for index in range(PICTURES):
                planes = np.ascontiguousarray(np.roll(noise, index, axis=1))
                encoder.encode(VideoCodec(name), planes, index, 1_500_000, keyframe=index == 0)
        except (OSError, ValueError) as error:
            lines.append(bad(name, str(error), "install PyAV from its wheel: pip install --force-reinstall av"))
            continue
        each_ms = (clock.now_ns() - began_ns) / NS_PER_MS / PICTURES
        said = f"encodes 512 x 512 noise in {each_ms:.1f} ms a picture"
        late = warn(name, said, "slower than the pictures come: use --canvas 256, or a faster machine")
        lines.append(late if each_ms > FRAME_MS else good(name, said))
    packets = list(SoundEncoder().encode(np.zeros(1920, np.int16), 0))
    lines.append(good("Opus", f"encodes; {len(packets)} packets a frame"))
    return lines


def engine(config: Config) -> Finding:
    """Makes the engine that would serve and warms it up."""
    clock = MonotonicClock()
    began_ns = clock.now_ns()
    try:
        made = catalog.serving(config.engine, config.models_dir, config.engine_options)
        made.warm_up()
    except EngineError as error:
        return bad("engine", str(error), f"or choose another with --engine: {', '.join(catalog.names())}")
    took_ms, spec = (clock.now_ns() - began_ns) / NS_PER_MS, made.spec
    made.close()
    look_ahead_ms = spec.lookahead_samples / 16
    return good("engine", f"{spec.name} is warm in {took_ms:.0f} ms; looks {look_ahead_ms:.1f} ms ahead")


def avatars(config: Config) -> Finding:
    """Packets in the store; the bundled ones are made at the first start."""
    try:
        ids = AvatarStore(config.avatars_dir).ids()
    except OSError as error:
        return bad("avatars", f"{config.avatars_dir}: {error.strerror}", "choose another folder with --avatars")
    if not ids:
        return good("avatars", f"none yet in {config.avatars_dir}; the bundled ones are made at the first start")
    return good("avatars", f"{len(ids)} in {config.avatars_dir}")


def voices(available: tuple[str, ...]) -> Finding:
    if not available:
        return warn("voices", "no synthesiser", "typed text needs one: apt-get install flite, or espeak-ng")
    return good("voices", ", ".join(available))
