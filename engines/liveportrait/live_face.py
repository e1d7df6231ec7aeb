"""The live engine's handle of an attached packet: sources of its distinct frames, made when first needed."""

from __future__ import annotations

import threading
from collections import OrderedDict

import cv2
import numpy as np
import numpy.typing as npt

from avatars.packet import AvatarPacket
from engines.errors import EngineContract
from engines.liveportrait.crop import F32, U8
from engines.liveportrait.portrait import LivePortrait, Portrait
from engines.liveportrait.staging import into_patch, laid, shown_box, staged, steady_crop

MESH_POINTS = 468
_KEPT_SOURCES = 64
"""Appearance volumes kept a face, 8.4 MB each at the published size; longer clips make them again in passing."""


class LiveFace:
    """A packet whose whole head moves. Threads may share it."""

    def __init__(self, packet: AvatarPacket, engine: LivePortrait) -> None:
        """Raises EngineContract where there are no landmarks, no face, or one that leaves its place."""
        wanted = (packet.cycle_frames, MESH_POINTS, 2)
        if packet.landmarks is None or packet.landmarks.shape != wanted:
            found = "none" if packet.landmarks is None else str(packet.landmarks.shape)
            raise EngineContract("landmarks", f"{wanted} float32, MediaPipe mesh in frame pixels", found)
        self._packet = packet
        self._engine = engine
        self._still = packet.frames.strides[0] == 0
        self._landmarks: F32 = packet.landmarks
        distinct = self._landmarks[:1] if self._still else self._landmarks
        self._shown: npt.NDArray[np.bool_] = np.asarray(np.isfinite(distinct).all((1, 2)))
        self._crop = steady_crop(distinct)
        self.stage = staged(packet, self._crop, [bool(self._shown[self._key(i)]) for i in range(packet.cycle_frames)])
        """The packet as a canvas shows this face: the whole head's box and mask."""
        self._box = shown_box(self._crop, packet.size_px)
        self._patch_px = engine.sizes.picture_px
        self._into_patch = into_patch(self._crop, self._box, self._patch_px, self._patch_px)
        self._lock = threading.Lock()
        self._sources: OrderedDict[int, Portrait] = OrderedDict()
        self.source(int(np.flatnonzero(self._shown)[0]))

    @property
    def packet(self) -> AvatarPacket:
        return self._packet

    def source(self, index: int) -> Portrait | None:
        """What moves at a grid index; None where the frame shows no face."""
        key = self._key(index)
        if not self._shown[key]:
            return None
        with self._lock:
            found = self._sources.get(key)
        if found is None:
            side_px = self._engine.sizes.image_px
            found = self._engine.prepare(self._crop.cut(self._frame(key), side_px), self._landmarks[key])
            with self._lock:
                self._sources[key] = found
                while len(self._sources) > _KEPT_SOURCES:
                    self._sources.popitem(last=False)
        return found

    def patch(self, face: U8) -> U8:
        """The patch of a rendered face (picture_px, picture_px, 3) u8 RGB."""
        return laid(face, self._into_patch, self._patch_px)

    def bare(self, index: int) -> U8:
        """The patch of a frame as it is."""
        x1, y1, x2, y2 = self._box
        part = np.ascontiguousarray(self._frame(self._key(index))[y1:y2, x1:x2])
        size = (self._patch_px, self._patch_px)
        return cv2.resize(part, size, interpolation=cv2.INTER_AREA).astype(np.uint8, copy=False)

    def _key(self, index: int) -> int:
        return 0 if self._still else index % self._packet.cycle_frames

    def _frame(self, key: int) -> U8:
        return np.ascontiguousarray(self._packet.frames[key].transpose(1, 2, 0))
