"""The Master Asset Packet in memory: what every engine and the compositor agree an avatar is. Knows no files."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from avatars.errors import PacketInvalid
from avatars.geometry import Geometry
from avatars.idle import IdleFrames

U8 = npt.NDArray[np.uint8]
F16 = npt.NDArray[np.float16]
F32 = npt.NDArray[np.float32]
I32 = npt.NDArray[np.int32]


@dataclass(frozen=True, slots=True, eq=False)
class FramedFace:
    """One frame's share of a packet."""

    box: tuple[int, int, int, int]
    """Face box x1, y1, x2, y2, frame pixels."""
    geometry: Geometry
    mask: F32
    """(1, crop_h, crop_w) f32 0..1; all zero where the frame shows no face."""
    landmarks: F32
    """(468, 2) f32 frame pixels; NaN where the frame shows no face."""


@dataclass(frozen=True, slots=True, eq=False)
class Anchors:
    """The distinct frames of a packet as playout wants them: M of them for N cycle frames. Derived from the rest."""

    planes: U8
    """(M, H * 3 // 2, W) u8 I420, sides even: an odd last row or column of the frames is cut."""
    order: I32
    """(N,) i32: which of the M each cycle frame is."""
    rects: I32
    """(M, 4) i32: the even rectangle x1, y1, x2, y2 in which the face patch shows; all zero where none does."""
    luma_masks: tuple[U8, ...]
    """M x (rect_h, rect_w) u8: the mask inside that rectangle, 0 where it was only rounded outwards."""


@dataclass(frozen=True, slots=True, eq=False)
class AvatarPacket:
    """One avatar, read-only, shared by all its sessions. N is equal everywhere (N cycle frames)."""

    avatar_id: str
    frames: U8
    """(N, 3, H, W) u8, RGB. A static portrait is a stride-0 expand of one frame."""
    latents: F16 | None
    """(N, 8, 32, 32) f16, channels 0..3 masked, 4..7 reference; None where no latent encoder was at hand."""
    masks: tuple[F32, ...]
    """N x (1, crop_h, crop_w) f32, 0..1: how much of the patch shows, over the crop rectangle of `geometry`."""
    geometry: tuple[Geometry, ...]
    """N crop rectangles with the face box inside them."""
    coords: tuple[tuple[int, int, int, int], ...]
    """N face boxes [x1, y1, x2, y2] in frame pixels, x2/y2 exclusive."""
    landmarks: F32 | None = None
    """(N, 468, 2) f32 frame pixels x, y of the MediaPipe mesh (stride-0 for a portrait), a sidecar; NaN: no face."""
    anchors: Anchors | None = None
    """The frames ready to stream, a sidecar; None: a canvas converts them itself."""
    idle: IdleFrames | None = None
    """Frames in which a portrait sways and breathes, a sidecar; None: it stands still."""
    sidecars: Mapping[str, Mapping[str, npt.NDArray[Any]]] = field(default_factory=dict)
    """What engines keep beside the packet, by engine; see SidecarBuilder."""
    info: Mapping[str, Any] = field(default_factory=dict)
    """channel_order, latent_encoder, dimensions, source, digests, quality report."""

    def __post_init__(self) -> None:
        n, channels, height, width = self.frames.shape
        if channels != 3 or self.frames.dtype != np.uint8:
            raise PacketInvalid("frames", "(N, 3, H, W) uint8", f"{self.frames.shape} {self.frames.dtype}")
        for name, count in (("masks", len(self.masks)), ("geometry", len(self.geometry)), ("coords", len(self.coords))):
            if count != n:
                raise PacketInvalid(name, f"{n} entries, one a frame", f"{count}")
        for i, (g, mask) in enumerate(zip(self.geometry, self.masks, strict=True)):
            if not (0 <= g.x_s < g.x_e <= width and 0 <= g.y_s < g.y_e <= height):
                raise PacketInvalid(f"geometry[{i}]", f"a rectangle inside {width}x{height}", str(tuple(g)))
            if mask.shape != (1, g.crop_height_px, g.crop_width_px):
                raise PacketInvalid(f"masks[{i}]", f"(1, {g.crop_height_px}, {g.crop_width_px})", str(mask.shape))
        if self.latents is not None and self.latents.shape != (n, 8, 32, 32):
            raise PacketInvalid("latents", f"({n}, 8, 32, 32): masked 0..3 and reference 4..7", str(self.latents.shape))

    @property
    def cycle_frames(self) -> int:
        return int(self.frames.shape[0])

    @property
    def size_px(self) -> tuple[int, int]:
        """(width, height) of the frames."""
        return int(self.frames.shape[3]), int(self.frames.shape[2])

    @property
    def mask_coords(self) -> tuple[tuple[int, int, int, int], ...]:
        """N crop rectangles [x1, y1, x2, y2]: the first four numbers of each geometry."""
        return tuple((g.x_s, g.y_s, g.x_e, g.y_e) for g in self.geometry)
