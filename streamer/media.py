"""The types that flow down the line, and the arithmetic of the frame grid. Knows no stage and no transport."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

import numpy as np
import numpy.typing as npt

S16 = npt.NDArray[np.int16]
U8 = npt.NDArray[np.uint8]
F32 = npt.NDArray[np.float32]

FPS = 25
FRAME_NS = 40_000_000
SOUND_HZ = 48_000
ANALYSIS_HZ = 16_000
CHUNK_SAMPLES = 960
"""20 ms at 48 kHz: one Opus packet, one VAD decision."""
FRAME_SAMPLES = 1920
FRAME_SAMPLES_16K = 640
CHUNKS_PER_FRAME = FRAME_SAMPLES // CHUNK_SAMPLES
VIDEO_CLOCK_HZ = 90_000
FRAME_TICKS = VIDEO_CLOCK_HZ // FPS


class PictureKind(StrEnum):
    """Why a picture looks as it does; the same words in metrics, events and documents."""

    VOICED = "voiced"
    IDLE = "idle"
    HELD = "held"
    LATE = "late"


class Source(StrEnum):
    """Where a session's voice comes from."""

    MIRROR = "mirror"
    AGENT = "agent"
    NONE = "none"


@dataclass(slots=True)
class Stamps:
    """Monotonic ns at which a frame passed each stage, 0 where it did not. Non-decreasing in this order."""

    captured_ns: int = 0
    """Arrival of the packet with the frame's last sound: as near to the microphone as the server sees."""
    gated_ns: int = 0
    windowed_ns: int = 0
    queued_ns: int = 0
    rendered_ns: int = 0
    composed_ns: int = 0
    encoded_ns: int = 0
    sent_ns: int = 0
    """The last packet of the picture has left."""
    sound_sent_ns: int = 0
    """The last packet of its own sound has left; not part of the order above."""


@dataclass(frozen=True, slots=True, eq=False)
class SoundBlock:
    """Decoded sound of one packet as the inbound buffer releases it."""

    pcm48: S16
    """(n,) s16 mono at 48 kHz."""
    source_sample: int
    """Position of its first sample on the sender's own 48 kHz timeline; contiguous, gaps already filled."""
    arrived_ns: int
    """Monotonic ns at which the packet arrived; for concealed sound, the time it was made up."""
    concealed: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class AudioChunk:
    """20 ms on the session's grid. Chunks of a session are contiguous; playout never hears 16 kHz sound."""

    samples16: F32
    """(320,) f32 in -1..1 at 16 kHz, for analysis."""
    pcm48: S16
    """(960,) s16 at 48 kHz, for playout."""
    first_sample: int
    """Grid position of pcm48[0] at 48 kHz, a multiple of 960; frame index = first_sample // 1920."""
    captured_ns: int
    generation: int = 0


@dataclass(frozen=True, slots=True, eq=False)
class GatedChunk:
    """A chunk with the VAD's word on it."""

    chunk: AudioChunk
    speech: bool
    """True inside speech, hangover included; the window stage adds the pre-roll."""
    gated_ns: int


@dataclass(frozen=True, slots=True, eq=False)
class FrameSound:
    """One frame's own sound, as soon as it is whole: it never waits for the look-ahead its mouth needs."""

    index: int
    pcm48: S16
    """(1920,) s16 at 48 kHz."""
    speech: bool
    """The VAD's word on the frame itself, without pre-roll."""
    generation: int
    stamps: Stamps


@dataclass(frozen=True, slots=True, eq=False)
class AudioWindow:
    """What an engine needs for one frame: its sound with context and look-ahead."""

    index: int
    samples16: F32
    """(context + 640 + look-ahead,) f32 at 16 kHz."""
    voiced: bool
    generation: int
    stamps: Stamps


@dataclass(frozen=True, slots=True, eq=False)
class RenderedMouth:
    """What comes back from the inference thread for one job."""

    index: int
    generation: int
    planes: U8 | None
    """(H * 3 // 2, W) u8 I420 planes with the mouth blended in; None where the engine failed."""
    rendered_ns: int


@dataclass(frozen=True, slots=True, eq=False)
class Picture:
    """A finished frame with its own 40 ms of sound: they travel together and cannot drift."""

    index: int
    planes: U8
    """(H * 3 // 2, W) u8, I420: Y rows, then U and V. Read-only; an idle picture is a reference to cached planes."""
    pcm48: S16
    """(1920,) s16 at 48 kHz."""
    kind: PictureKind
    generation: int
    stamps: Stamps


def frame_deadline_ns(start_ns: int, index: int, playout_delay_ns: int) -> int:
    """When the picture `index` of a session that went live at `start_ns` is released."""
    return start_ns + index * FRAME_NS + playout_delay_ns
