"""Flat things laid over I420 pictures: lower thirds with names, frames around who speaks, the AI badge. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import cv2
import numpy as np

from streamer.graphics.lettering import Lettering
from streamer.media import U8

Rgb = tuple[int, int, int]
INK: Rgb = (245, 247, 250)
PLATE: Rgb = (10, 14, 22)
PLATE_SHARE = 0.78
"""How much of a plate covers what lies under it."""


@dataclass(frozen=True, slots=True, eq=False)
class Overlay:
    """Premultiplied planes and what they leave of the picture: new = planes + old * keep / 256."""

    planes: tuple[U8, U8, U8]
    """(h, w), (h / 2, w / 2) twice; u8."""
    keep: tuple[np.ndarray, np.ndarray]
    """u16 0..256 for luma and for chroma."""

    @property
    def size_px(self) -> tuple[int, int]:
        """(width, height), both even."""
        return self.planes[0].shape[1], self.planes[0].shape[0]


def to_yuv(colour: Rgb) -> tuple[int, int, int]:
    """BT.601, limited range: what browsers take I420 for."""
    r, g, b = colour
    y = 16 + (65.481 * r + 128.553 * g + 24.966 * b) / 255
    u = 128 + (-37.797 * r - 74.203 * g + 112.0 * b) / 255
    v = 128 + (112.0 * r - 93.786 * g - 18.214 * b) / 255
    return round(y), round(u), round(v)


def parse_colour(text: str) -> Rgb:
    """ "#rrggbb" to numbers. Raises ValueError."""
    if len(text) != 7 or text[0] != "#":
        raise ValueError(f"{text!r} is no colour; write for example #d7263d")
    return int(text[1:3], 16), int(text[3:5], 16), int(text[5:7], 16)


def overlay_of(rgb: U8, alpha: np.ndarray) -> Overlay:
    """From (h, w, 3) u8 RGB and (h, w) f32 alpha 0..1; sides even."""
    height, width = alpha.shape
    r, g, b = (rgb[..., channel].astype(np.float32) for channel in range(3))
    y = 16 + (65.481 * r + 128.553 * g + 24.966 * b) / 255
    u = 128 + (-37.797 * r - 74.203 * g + 112.0 * b) / 255
    v = 128 + (112.0 * r - 93.786 * g - 18.214 * b) / 255
    half = (width // 2, height // 2)
    small = np.asarray(cv2.resize(alpha, half, interpolation=cv2.INTER_AREA))

    def chroma(plane: np.ndarray) -> U8:
        weighed = np.asarray(cv2.resize(plane * alpha, half, interpolation=cv2.INTER_AREA))
        plane8: U8 = np.rint(weighed).astype(np.uint8)
        return plane8

    keep = (np.rint((1 - alpha) * 256).astype(np.uint16), np.rint((1 - small) * 256).astype(np.uint16))
    return Overlay((np.rint(y * alpha).astype(np.uint8), chroma(u), chroma(v)), keep)


def lay(overlay: Overlay, planes: tuple[U8, U8, U8], x: int, y: int) -> None:
    """Lay over (h, w) luma and chroma planes in place; x and y even; what stands out is cut."""
    width = min(overlay.size_px[0], planes[0].shape[1] - x)
    height = min(overlay.size_px[1], planes[0].shape[0] - y)
    if width <= 0 or height <= 0:
        return
    for number, plane in enumerate(planes):
        step = 1 if number == 0 else 2
        rows, columns = slice(y // step, (y + height) // step), slice(x // step, (x + width) // step)
        own = (slice(0, height // step), slice(0, width // step))
        keep = overlay.keep[0 if number == 0 else 1][own]
        old = plane[rows, columns]
        plane[rows, columns] = overlay.planes[number][own] + (np.multiply(old, keep, dtype=np.uint16) >> 8).astype(
            np.uint8
        )


@lru_cache(maxsize=128)
def lower_third(name: str, role: str, tile_px: tuple[int, int], accent: Rgb, lettering: Lettering) -> Overlay | None:
    """Name and role on a plate, for the lower left of a tile of (width, height). None where nothing fits."""
    width_px, height_px = tile_px
    if min(width_px, height_px) < 90 or not (name or role):
        return None
    big = int(np.clip(height_px * 0.075, 16, 44))
    small = int(big * 0.68)
    lines = [(lettering.mask(name, big), INK)] if name else []
    if role and height_px >= 160:
        lines.append((lettering.mask(role, small), (176, 186, 200)))
    pad, bar = big // 2, max(4, big // 6) // 2 * 2
    most = width_px * 9 // 10
    width = min(most, bar + 2 * pad + max(mask.shape[1] for mask, _ in lines)) // 2 * 2
    height = (sum(mask.shape[0] for mask, _ in lines) + pad) // 2 * 2
    rgb = np.empty((height, width, 3), np.uint8)
    rgb[:] = PLATE
    alpha = np.full((height, width), PLATE_SHARE, np.float32)
    rgb[:, :bar], alpha[:, :bar] = accent, 1.0
    top = pad // 2
    for mask, ink in lines:
        cover = mask[: height - top, : width - bar - pad].astype(np.float32) / 255.0
        area = (slice(top, top + cover.shape[0]), slice(bar + pad, bar + pad + cover.shape[1]))
        rgb[area] = np.rint(rgb[area] * (1 - cover[..., None]) + np.array(ink) * cover[..., None]).astype(np.uint8)
        alpha[area] = np.maximum(alpha[area], cover)
        top += mask.shape[0]
    return overlay_of(rgb, alpha)


@lru_cache(maxsize=32)
def badge(text: str, picture_px: tuple[int, int], lettering: Lettering) -> Overlay:
    """A small plate that says what the picture is, for its upper right corner."""
    size = int(np.clip(min(picture_px) * 0.05, 14, 40))
    mask = lettering.mask(text, size).astype(np.float32) / 255.0
    pad = size // 3
    height, width = (mask.shape[0] + pad) // 2 * 2, (mask.shape[1] + 2 * pad) // 2 * 2
    ink = np.zeros((height, width), np.float32)
    part = mask[: height - pad // 2, : width - pad]
    ink[pad // 2 : pad // 2 + part.shape[0], pad : pad + part.shape[1]] = part
    plate = _rounded(height, width, size // 4) * PLATE_SHARE
    rgb = np.rint(np.array(PLATE) * (1 - ink[..., None]) + np.array(INK) * ink[..., None]).astype(np.uint8)
    return overlay_of(rgb, np.maximum(plate, ink))


def _rounded(height: int, width: int, radius: int) -> np.ndarray:
    """(h, w) f32: 1 inside a rectangle with round corners."""
    scale = 4
    big = np.zeros((height * scale, width * scale), np.uint8)
    r = radius * scale
    cv2.rectangle(big, (r, 0), (width * scale - r, height * scale), 255, -1)
    cv2.rectangle(big, (0, r), (width * scale, height * scale - r), 255, -1)
    for x in (r, width * scale - r - 1):
        for y in (r, height * scale - r - 1):
            cv2.circle(big, (x, y), r, 255, -1)
    return np.asarray(cv2.resize(big, (width, height), interpolation=cv2.INTER_AREA)).astype(np.float32) / 255.0
