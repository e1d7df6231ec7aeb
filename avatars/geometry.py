"""Where a face patch lands in an anchor frame: the clamped crop of the Master Avatar Precompilation Protocol."""

from __future__ import annotations

from typing import NamedTuple


class Geometry(NamedTuple):
    """Crop rectangle in the frame and face box inside the crop, whole pixels.

    0 <= x_s < x_e <= W and 0 <= y_s < y_e <= H. Edges may be odd: even alignment exists only in the I420 sidecar.
    """

    x_s: int
    y_s: int
    x_e: int
    y_e: int
    rel_x: int
    rel_y: int
    rel_w: int
    rel_h: int

    @property
    def crop_width_px(self) -> int:
        return self.x_e - self.x_s

    @property
    def crop_height_px(self) -> int:
        return self.y_e - self.y_s


def compute_avatar_crop_geometry(
    x1: int, y1: int, x2: int, y2: int, img_w: int, img_h: int, expand: float = 1.5
) -> Geometry:
    """Square crop around a face box, moved into the frame where possible and clamped to it.

    Same name, arguments and results as the protocol document, bit for bit.
    """
    x_c, y_c = (x1 + x2) // 2, (y1 + y2) // 2
    half = int(max(x2 - x1, y2 - y1) // 2 * expand)

    x_s, x_e = _move_inside(x_c - half, x_c + half, img_w)
    y_s, y_e = _move_inside(y_c - half, y_c + half, img_h)

    crop_w, crop_h = x_e - x_s, y_e - y_s
    rel_x = max(0, int(x1) - x_s)
    rel_y = max(0, int(y1) - y_s)
    rel_w = max(1, min(int(x2) - int(x1), crop_w - rel_x))
    rel_h = max(1, min(int(y2) - int(y1), crop_h - rel_y))
    return Geometry(x_s, y_s, x_e, y_e, rel_x, rel_y, rel_w, rel_h)


def _move_inside(start: int, end: int, size: int) -> tuple[int, int]:
    """Shift [start, end) into [0, size) keeping its length where it fits, then clamp hard."""
    if start < 0:
        end = min(size, end - start)
        start = 0
    if end > size:
        start = max(0, start - (end - size))
        end = size
    start = max(0, min(int(start), size - 1))
    end = max(start + 1, min(int(end), size))
    return start, end
