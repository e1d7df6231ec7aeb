"""The warp engine's handle of an attached packet: rigs for its distinct frames, made when first needed."""

from __future__ import annotations

import threading
from collections import OrderedDict

import cv2
import numpy as np
import numpy.typing as npt

from avatars.packet import AvatarPacket
from engines.contract import FaceOverlay
from engines.warp.crops import crops_of
from engines.warp.glances import EyeLife
from engines.warp.lids import LidPainter
from engines.warp.life import Life
from engines.warp.moulds import Moulds
from engines.warp.pose import patch_points, shows_face
from engines.warp.rig import Rig, build_rig
from engines.warp.shape import MouthShape

U8 = npt.NDArray[np.uint8]
F32 = npt.NDArray[np.float32]

RIG_LIMIT = 128
"""Rigs kept a face, 1.3 MB each; a longer clip makes them again as it comes round, some 30 ms a frame."""


class WarpFace:
    """Renders any mouth shape on any frame of a packet. Threads may share it."""

    def __init__(self, packet: AvatarPacket, landmarks: F32, patch_px: int, life: Life, moulds: Moulds) -> None:
        self.patch_px = patch_px
        self._packet = packet
        self._landmarks = landmarks
        self._life = life
        self._moulds = moulds
        self._still = packet.frames.strides[0] == 0
        self._crops = crops_of(packet.sidecars, packet.coords[0], patch_px) if self._still else None
        self._lock = threading.Lock()
        self._rigs: OrderedDict[int, Rig | U8] = OrderedDict()
        self._eyes = EyeLife(packet.avatar_id)
        self._rig(0)
        self._lids = self._make_lids() if self._still else None

    @property
    def packet(self) -> AvatarPacket:
        return self._packet

    @property
    def rigs_kept(self) -> int:
        return len(self._rigs)

    @property
    def neutral(self) -> U8:
        """(N, N, 3) u8 RGB: the first frame with its mouth shut and at rest."""
        return self.render(MouthShape())

    def render(self, shape: MouthShape, index: int = 0, sway: float = 0.0, tilt: float = 0.0) -> U8:
        """(N, N, 3) u8 RGB patch of a frame. A frame without a face comes back as it is. Raises EngineOutput.

        sway and tilt, -1..1: the jaw to one side, one corner higher.
        """
        rig = self._rig(index % self._packet.cycle_frames)
        return rig.render(shape, sway, tilt) if isinstance(rig, Rig) else rig.copy()

    def speak(self, shape: MouthShape, index: int) -> U8:
        """The same with the small irregularities of a living mouth, for a frame of the session's grid."""
        return self.render(shape, index, *self._life.at(index))

    def overlays(self, index: int) -> tuple[FaceOverlay, ...]:
        """Lids and gaze in a frame of the session's grid. People in clips blink for themselves."""
        return () if self._lids is None else self._lids.overlays(self._eyes.at(index))

    def _make_lids(self) -> LidPainter | None:
        box, points = self._packet.coords[0], self._landmarks[0]
        if not shows_face(points, box):
            return None
        shut = None if self._crops is None else self._crops.shut_eyes
        return LidPainter(self._anchor(0), patch_points(points, box, self.patch_px), shut)

    def _rig(self, frame: int) -> Rig | U8:
        key = 0 if self._still else frame
        with self._lock:
            if key in self._rigs:
                self._rigs.move_to_end(key)
                return self._rigs[key]
        made = self._make(key)
        with self._lock:
            self._rigs[key] = made
            while len(self._rigs) > RIG_LIMIT:
                self._rigs.popitem(last=False)
        return made

    def _anchor(self, frame: int) -> U8:
        """(N, N, 3) u8 RGB: the face box of a frame as the portrait shows it, read-only."""
        x1, y1, x2, y2 = self._packet.coords[frame]
        size = (self.patch_px, self.patch_px)
        width, height = self._packet.size_px
        rows = np.arange(y1, y2).clip(0, height - 1)  # a box may hang over the edge: the edge goes on
        columns = np.arange(x1, x2).clip(0, width - 1)
        face = np.ascontiguousarray(self._packet.frames[frame][:, rows[:, None], columns].transpose(1, 2, 0))
        shrinks = max(x2 - x1, y2 - y1) > self.patch_px
        anchor = cv2.resize(face, size, interpolation=cv2.INTER_AREA if shrinks else cv2.INTER_CUBIC)
        anchor.flags.writeable = False
        return np.asarray(anchor, dtype=np.uint8)

    def _make(self, frame: int) -> Rig | U8:
        anchor, box, points = self._anchor(frame), self._packet.coords[frame], self._landmarks[frame]
        if not shows_face(points, box):
            return anchor
        shows = self._shows(frame, (self.patch_px, self.patch_px))
        return build_rig(anchor, shows, np.array(points), box, self._crops or self._moulds)

    def _shows(self, frame: int, size: tuple[int, int]) -> F32:
        """The packet's mask over the face box, (N, N) f32."""
        x1, y1, x2, y2 = self._packet.coords[frame]
        geometry, mask = self._packet.geometry[frame], self._packet.masks[frame][0]
        whole = np.zeros((y2 - y1, x2 - x1), np.float32)
        left, top = max(x1, geometry.x_s), max(y1, geometry.y_s)
        right, bottom = min(x2, geometry.x_e), min(y2, geometry.y_e)
        if left < right and top < bottom:
            part = mask[top - geometry.y_s : bottom - geometry.y_s, left - geometry.x_s : right - geometry.x_s]
            whole[top - y1 : bottom - y1, left - x1 : right - x1] = part
        return np.asarray(cv2.resize(whole, size, interpolation=cv2.INTER_AREA), dtype=np.float32)
