"""Stills that show what a packet will do: where the patch goes, how much of it shows, and other places for it."""

from __future__ import annotations

import cv2
import numpy as np
import numpy.typing as npt

from avatars.geometry import Geometry, compute_avatar_crop_geometry
from avatars.masks import MESH_SOFTNESS, mesh_region, place, soften, unclamped_crop
from avatars.packet import AvatarPacket
from avatars.precompile import FaceSettings, face_box

U8 = npt.NDArray[np.uint8]
F32 = npt.NDArray[np.float32]
Box = tuple[int, int, int, int]

_TILE_PX = 448
_TINT = np.array((40, 200, 90), dtype=np.float32)
_BOX, _CROP = (235, 60, 50), (240, 210, 60)


def preview(packet: AvatarPacket, index: int = 0, shifts_px: tuple[int, ...] = ()) -> U8:
    """(h, w, 3) u8 RGB: the anchor frame, the same with face box, crop and mask, and one more for each shift."""
    rgb = np.asarray(cv2.merge(list(packet.frames[index])), dtype=np.uint8)
    tiles = [
        _tile(rgb, "anchor"),
        _tile(_marked(rgb, packet.coords[index], packet.geometry[index], packet.masks[index]), "packet"),
    ]
    if shifts_px and packet.landmarks is not None and np.isfinite(packet.landmarks[index]).all():
        mesh: F32 = packet.landmarks[index]
        for shift_px in shifts_px:
            box = face_box(mesh, packet.size_px, FaceSettings(bbox_shift_px=shift_px))
            if box is None or box[0] >= box[2] or box[1] >= box[3]:
                continue
            geometry = compute_avatar_crop_geometry(*box, *packet.size_px)
            crop = unclamped_crop(box)
            mask = place(soften(mesh_region(mesh, crop, box), crop, box, softness=MESH_SOFTNESS), crop, geometry)
            tiles.append(_tile(_marked(rgb, box, geometry, mask), f"shift {shift_px:+d} px"))
    return np.hstack(tiles)


def _marked(rgb: U8, box: Box, geometry: Geometry, mask: F32) -> U8:
    marked = rgb.astype(np.float32)
    g = geometry
    part = marked[g.y_s : g.y_e, g.x_s : g.x_e]
    part += (_TINT - part) * (0.55 * mask[0][:, :, None])
    out = marked.astype(np.uint8)
    line_px = max(1, max(rgb.shape[:2]) // 400)
    cv2.rectangle(out, (g.x_s, g.y_s), (g.x_e - 1, g.y_e - 1), _CROP, line_px)
    cv2.rectangle(out, (box[0], box[1]), (box[2] - 1, box[3] - 1), _BOX, line_px)
    return out


def _tile(rgb: U8, title: str) -> U8:
    height, width = rgb.shape[:2]
    scale = _TILE_PX / height
    tile = np.asarray(cv2.resize(rgb, (round(width * scale), _TILE_PX), interpolation=cv2.INTER_AREA), dtype=np.uint8)
    cv2.putText(tile, title, (8, 20), cv2.FONT_HERSHEY_SIMPLEX, 0.5, (0, 0, 0), 3, cv2.LINE_AA)
    cv2.putText(tile, title, (8, 20), cv2.FONT_HERSHEY_SIMPLEX, 0.5, (255, 255, 255), 1, cv2.LINE_AA)
    return tile
