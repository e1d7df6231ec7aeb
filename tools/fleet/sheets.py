"""Draws the docs' sheets of mouths and of a talking clip: `python tools/fleet/sheets.py` with liveanchor installed."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import cv2
import numpy as np
from PIL import Image

from avatars.bundled import bundled_portraits
from avatars.faces import FaceMesh
from avatars.picture import load_picture
from avatars.precompile import precompile_portrait
from avatars.sources import SIDECAR
from engines.warp import visemes
from engines.warp.engine import WarpEngine
from streamer.media import SOUND_HZ
from streamer.speech import decode_speech
from streamer.talk import Speaker, pictures

ROOT = Path(__file__).resolve().parents[2]
ANCHORS, MOUTH_PX = 10, 160
TALKERS, FRAMES, EVERY, FIRST_FRAME, TALK_PX = 3, 11, 3, 14, 160


def main() -> None:
    finder, engine = FaceMesh(), WarpEngine()
    packets = []
    for portrait in bundled_portraits()[:ANCHORS]:
        packet = precompile_portrait(load_picture(portrait.path), portrait.id, finder)
        packets.append(replace(packet, sidecars={SIDECAR: portrait.sources()}))
    mouths = np.vstack([visemes.sheet(engine.attach(packet), MOUTH_PX) for packet in packets])
    Image.fromarray(mouths).save(ROOT / "docs" / "mouths.webp", quality=85, method=6)
    sound = decode_speech((ROOT / "web" / "samples" / "evening-news.ogg").read_bytes(), "audio/ogg")[: 3 * SOUND_HZ]
    rows = []
    for packet in packets[:TALKERS]:
        tiles = []
        for picture in pictures(Speaker.of(engine, packet, max(packet.size_px)), sound):
            step, rest = divmod(picture.index - FIRST_FRAME, EVERY)
            if rest == 0 and 0 <= step < FRAMES:
                rgb = cv2.cvtColor(np.ascontiguousarray(picture.planes), cv2.COLOR_YUV2RGB_I420)
                x1, y1, x2, y2 = packet.coords[0]
                half = round(0.56 * max(x2 - x1, y2 - y1))
                x, y = max(half, (x1 + x2) // 2), max(half, (y1 + y2) // 2)
                crop = rgb[y - half : y + half, x - half : x + half]
                tiles.append(cv2.resize(crop, (TALK_PX, TALK_PX), interpolation=cv2.INTER_AREA))
        rows.append(np.hstack(tiles))
    Image.fromarray(np.vstack(rows)).save(ROOT / "docs" / "talking.webp", quality=85, method=6)


if __name__ == "__main__":
    main()
