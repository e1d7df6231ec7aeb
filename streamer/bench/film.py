"""`liveanchor bench film`: the protocol document's figure, 3.0 s of speech rendered with a cached avatar, by engine."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

from avatars.pool import AvatarPool
from avatars.store import AvatarStore
from engines import catalog
from streamer import talk
from streamer.app import web_folder
from streamer.media import SOUND_HZ
from streamer.speech import decode_speech

SECONDS = 3.0
ENGINE = "warp"
CANVAS_PX = 512


def run() -> dict[str, float]:
    """Wall and CPU seconds and frames a second, with the avatar read anew (miss) and at hand (hit)."""
    sound = (web_folder() / "samples" / "evening-news.ogg").read_bytes()
    pcm48 = decode_speech(sound, "audio/ogg")[: int(SECONDS * SOUND_HZ)]
    engine = catalog.create(ENGINE)
    figures: dict[str, float] = {"speech_s": SECONDS}
    with tempfile.TemporaryDirectory(prefix="liveanchor-bench-") as folder:
        store = AvatarStore(Path(folder) / "avatars")
        store.make_bundled("ruby")
        engine.warm_up()
        pool = AvatarPool(store)
        for name in ("miss", "hit"):
            wall_s, cpu_s = time.perf_counter(), time.process_time()
            packet, hit = pool.get("ruby")
            assert hit == (name == "hit")
            speaker = talk.Speaker.of(engine, packet, CANVAS_PX)
            frames = talk.film(speaker, pcm48, Path(folder) / "film.mp4", lambda done, total: None)
            figures[f"{ENGINE}_{name}_wall_s"] = time.perf_counter() - wall_s
            figures[f"{ENGINE}_{name}_cpu_s"] = time.process_time() - cpu_s
            figures[f"{ENGINE}_{name}_frames_per_cpu_s"] = frames / figures[f"{ENGINE}_{name}_cpu_s"]
            figures[f"{ENGINE}_{name}_frames_per_s"] = frames / figures[f"{ENGINE}_{name}_wall_s"]
    return figures
