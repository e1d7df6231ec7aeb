"""What idle life costs: its frames made once, a picture of who waits, of who speaks while swaying, and its bits."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from avatars.canvas import Canvas
from avatars.idle import read_idle
from avatars.packet import AvatarPacket
from avatars.sway import build_idle
from engines.contract import FPS
from engines.warp.engine import WarpEngine
from engines.warp.shape import MouthShape
from streamer.casting import FORESEEN_FRAMES, staged
from streamer.rtc.encoder import VideoCodec, VideoEncoder

CANVAS_PX = 512
WAITED_FRAMES = 60 * FPS
ENCODED_FRAMES = 20 * FPS
BITRATE_BPS = 1_500_000


def run(packets: Sequence[AvatarPacket], shapes: Sequence[MouthShape], warm_up_frames: int) -> dict[str, float]:
    """CPU time of portraits without idle frames, and as many shapes to speak as are given; the worst of the builds."""
    engine = WarpEngine()
    built_s, bytes_made, idle_ms, spoken_ms = [], 0, [], []
    still, swaying = [], []
    for packet in packets:
        before_ns = time.process_time_ns()
        arrays = build_idle(packet)
        built_s.append((time.process_time_ns() - before_ns) / 1e9)
        bytes_made = max(bytes_made, sum(array.nbytes for array in arrays.values()))
        alive = replace(packet, idle=read_idle(arrays, packet.size_px))
        face = engine.attach(alive)
        canvas = staged(face, CANVAS_PX)
        canvas.prepare(FORESEEN_FRAMES)
        for index in range(WAITED_FRAMES):
            before_ns = time.thread_time_ns()
            canvas.anchor(index)
            idle_ms.append((time.thread_time_ns() - before_ns) / 1e6)
        for index, shape in enumerate(shapes):
            before_ns = time.thread_time_ns()
            canvas.blend(index, face.speak(shape, index), face.overlays(index))
            if index >= warm_up_frames:
                spoken_ms.append((time.thread_time_ns() - before_ns) / 1e6)
        still.append(_encode(staged(engine.attach(packet), CANVAS_PX)))
        swaying.append(_encode(canvas))
    return {
        "idle_build_worst_cpu_s": max(built_s),
        "idle_sidecar_mb": bytes_made / 1e6,
        "idle_picture_mean_cpu_ms": float(np.mean(idle_ms)),
        "idle_picture_p99_cpu_ms": float(np.quantile(idle_ms, 0.99)),
        "render_blend_swaying_median_cpu_ms": float(np.median(spoken_ms)),
        "render_blend_swaying_p99_cpu_ms": float(np.quantile(spoken_ms, 0.99)),
        "encode_still_mean_cpu_ms": float(np.mean([ms for ms, _ in still])),
        "encode_swaying_mean_cpu_ms": float(np.mean([ms for ms, _ in swaying])),
        "encode_still_kbit_s": float(np.mean([kbit for _, kbit in still])),
        "encode_swaying_kbit_s": float(np.mean([kbit for _, kbit in swaying])),
    }


def _encode(canvas: Canvas) -> tuple[float, float]:
    """Mean CPU ms a waiting picture takes in VP8, and kbit/s."""
    encoder, codec = VideoEncoder(), VideoCodec("VP8")
    spent_ns = taken_bytes = 0
    for index in range(ENCODED_FRAMES):
        planes = canvas.anchor(index)
        before_ns = time.thread_time_ns()
        packet = encoder.encode(codec, planes, index, BITRATE_BPS, keyframe=index == 0).packet
        if index >= FPS:  # the first picture is a whole one, and the next few still mend it
            spent_ns += time.thread_time_ns() - before_ns
            taken_bytes += packet.size
    frames = ENCODED_FRAMES - FPS
    return spent_ns / 1e6 / frames, taken_bytes * 8 / 1000 / (frames / FPS)
