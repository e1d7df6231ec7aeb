"""What the embedded engine costs on one thread: a frame, its sound, a portrait made ready, one that waits."""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np

from avatars.bundled import bundled_portraits
from avatars.canvas import Canvas
from avatars.faces import FaceMesh
from avatars.packet import AvatarPacket
from avatars.picture import load_picture
from avatars.precompile import precompile_portrait
from engines.warp.engine import MOUTH_PX, WarpEngine
from engines.warp.face import WarpFace
from engines.warp.shape import MouthShape
from engines.warp.speech import MouthNet
from streamer.bench import idle

FRAMES = 400
PORTRAITS = 3
CANVAS_PX = 512
LARGEST_MOUTH_PX = 512
WARM_UP_FRAMES = 10


def run() -> dict[str, float]:
    """Medians and the 99th percentile of CPU time, never of time waited."""
    finder = FaceMesh()
    packets: list[AvatarPacket] = []
    engine = WarpEngine()
    made_s = []
    attached_s = []
    for portrait in bundled_portraits()[:PORTRAITS]:
        rgb = load_picture(portrait.path)
        before_ns = time.process_time_ns()
        packets.append(precompile_portrait(rgb, portrait.id, finder))
        between_ns = time.process_time_ns()
        engine.attach(packets[-1])
        made_s.append((time.process_time_ns() - before_ns) / 1e9)
        attached_s.append((time.process_time_ns() - between_ns) / 1e9)
    usual = _render_blend_ms(packets, MOUTH_PX)
    largest = _render_blend_ms(packets, face_px(packets[0]))
    return {
        "render_blend_median_cpu_ms": float(np.median(usual)),
        "render_blend_p99_cpu_ms": float(np.quantile(usual, 0.99)),
        "render_blend_face_px": float(face_px(packets[0])),
        "render_blend_face_px_median_cpu_ms": float(np.median(largest)),
        "audio_net_median_cpu_ms": _audio_net_ms(),
        "precompile_mean_cpu_s": float(np.mean(made_s)),
        "attach_mean_cpu_s": float(np.mean(attached_s)),
        **idle.run(packets, talking(FRAMES + WARM_UP_FRAMES), WARM_UP_FRAMES),
    }


def face_px(packet: AvatarPacket) -> int:
    """Side of a patch as large as the packet's own face, up to what the engine makes."""
    x1, y1, x2, y2 = packet.coords[0]
    return min(LARGEST_MOUTH_PX, max(x2 - x1, y2 - y1) // 4 * 4)


def _render_blend_ms(packets: list[AvatarPacket], mouth_px: int) -> list[float]:
    """CPU ms of each frame: mouth shape to blended I420 canvas."""
    engine = WarpEngine(mouth_px)
    spent: list[float] = []
    for packet in packets:
        face, canvas = engine.attach(packet), Canvas(packet, CANVAS_PX)
        spent += _each_ms(_Speaker(face, canvas), FRAMES + WARM_UP_FRAMES)[WARM_UP_FRAMES:]
    return spent


class _Speaker:
    """One frame after the other of a face on a canvas."""

    def __init__(self, face: WarpFace, canvas: Canvas) -> None:
        self._face = face
        self._canvas = canvas
        self._shapes = talking(FRAMES + WARM_UP_FRAMES)

    def __call__(self, index: int) -> None:
        self._canvas.blend(index, self._face.speak(self._shapes[index], index))


def talking(count: int) -> list[MouthShape]:
    """Mouth shapes that change as quickly as speech does, each element over its whole range."""
    noise = np.random.default_rng(7).normal(size=(count + 6, len(MouthShape._fields)))
    smooth = sum(noise[i : i + count] for i in range(6)) / np.sqrt(6)
    return [MouthShape(*row) for row in np.clip(0.35 + 0.4 * smooth, 0.0, 1.0).tolist()]


def _audio_net_ms() -> float:
    net = MouthNet.load()
    windows = np.random.default_rng(3).normal(size=(FRAMES, 1, net.window_samples)).astype(np.float32) * 0.1
    return float(np.median(_each_ms(lambda index: net.shapes(windows[index]), FRAMES)))


def _each_ms(call: Callable[[int], object], count: int) -> list[float]:
    spent = []
    for index in range(count):
        before_ns = time.thread_time_ns()
        call(index)
        spent.append((time.thread_time_ns() - before_ns) / 1e6)
    return spent
