"""Brings avatars in from elsewhere: MuseTalk's own avatar folders, and packets of the seven files that others made."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import numpy.typing as npt

from avatars.adopt import find_landmarks
from avatars.blend import Box
from avatars.clip import forward_backward
from avatars.errors import PacketInvalid, PortraitRejected
from avatars.faces import FaceMesh
from avatars.folder import SEVEN
from avatars.geometry import compute_avatar_crop_geometry
from avatars.masks import place
from avatars.packet import FramedFace
from avatars.pickles import Buildable, read_pickle
from avatars.picture import load_picture
from avatars.precompile import NO_LATENTS, PACKET_VERSION
from avatars.reader import Inspected, open_packet
from avatars.store import AvatarStore
from avatars.torchfile import TorchFile
from avatars.writer import PacketWriter, write_info

U8 = npt.NDArray[np.uint8]
F16 = npt.NDArray[np.float16]
Progress = Callable[[float], None]

STILL_FRAMES = 25
_MAX_FRAMES = 4000
_NO_FACE = (0, 0, 0, 0)
"""MuseTalk's box for a frame without a face."""


def import_avatar(
    source: Path,
    store: AvatarStore,
    avatar_id: str,
    *,
    bgr: bool = False,
    finder: FaceMesh | None = None,
    progress: Progress = lambda done: None,
) -> dict[str, Any]:
    """Read a folder made elsewhere, check every byte of it, and write it to the store. Returns its description.

    `bgr`: the frames of a seven-file packet are blue first. The source is left as it is. Raises AvatarError.
    """
    if not source.is_dir() or source.is_symlink():
        raise PortraitRejected(source.name, "this is no folder", "name a folder with an avatar in it")
    official = (source / "full_imgs").is_dir()
    if not official and not all((source / name).is_file() for name in SEVEN):
        missing = ", ".join(name for name in SEVEN if not (source / name).is_file())
        remedy = f"a MuseTalk folder has full_imgs/ and mask/, a packet has seven files; missing: {missing}"
        raise PortraitRejected(source.name, "this is no avatar folder", remedy)
    finder = finder or FaceMesh()
    with store.replacing(avatar_id) as folder, PacketWriter(folder) as writer:
        if official:
            info = _import_official(source, avatar_id, writer, finder, progress)
        else:
            info = _import_packet(source, avatar_id, writer, finder, progress, bgr=bgr)
        write_info(folder, info)
    progress(1.0)
    return store.info(avatar_id)


def numpy_names() -> dict[str, Callable[..., Any]]:
    """The two numpy names that number lists made with numpy hold, in both their spellings."""
    return {
        "numpy.dtype": _Dtype,
        "numpy.core.multiarray.scalar": _scalar,
        "numpy._core.multiarray.scalar": _scalar,
    }


class _Dtype(Buildable):
    """A numpy number type, by its name."""

    __slots__ = ("name",)

    def __init__(self, name: object, *_: object) -> None:
        if name not in ("i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8"):
            raise ValueError("a number type that is not known")
        self.name = str(name)

    def build(self, state: object) -> None:
        if not isinstance(state, tuple) or len(state) < 2 or state[1] not in ("<", "|", "="):
            raise ValueError("numbers in big-endian order")


def _scalar(dtype: object, data: object) -> int | float:
    if not isinstance(dtype, _Dtype) or not isinstance(data, bytes):
        raise TypeError("a number of no known type")
    value: int | float = np.frombuffer(data, dtype=f"<{dtype.name}", count=1)[0].item()
    return value


def _import_packet(
    source: Path, avatar_id: str, writer: PacketWriter, finder: FaceMesh, progress: Progress, *, bgr: bool
) -> dict[str, Any]:
    packet = open_packet(source, source.name, Inspected(), numpy_names())
    if bgr:
        packet = replace(packet, frames=packet.frames[:, ::-1])
    landmarks = find_landmarks(packet, finder)
    progress(0.4)
    still = all(np.array_equal(packet.frames[i], packet.frames[0]) for i in range(1, packet.cycle_frames))
    distinct = 1 if still else packet.cycle_frames
    for i in range(distinct):
        writer.add_frame(np.asarray(cv2.merge(list(packet.frames[i])), dtype=np.uint8))
        face = FramedFace(packet.coords[i], packet.geometry[i], packet.masks[i], landmarks[i])
        writer.add_face(face, None if packet.latents is None else packet.latents[i])
        progress(0.4 + 0.6 * (i + 1) / distinct)
    writer.finish([0] * packet.cycle_frames if still else range(packet.cycle_frames))
    return _info(avatar_id, source, packet.size_px, packet.cycle_frames, packet.latents is not None) | {
        "imported": {"layout": "packet", "bgr": bgr, "info": _plain(packet.info)}
    }


def _import_official(
    source: Path, avatar_id: str, writer: PacketWriter, finder: FaceMesh, progress: Progress
) -> dict[str, Any]:
    """MuseTalk's layout: numbered pictures, then the same backwards; masks over crops that may leave the frame."""
    pictures, masks = _numbered(source / "full_imgs"), _numbered(source / "mask")
    boxes = _boxes(source / "coords.pkl", len(pictures))
    crops = _boxes(source / "mask_coords.pkl", len(pictures))
    if len(masks) != len(pictures):
        raise PacketInvalid("mask", f"{len(pictures)} pictures, one for each of full_imgs", f"{len(masks)}")
    latents = _official_latents(source / "latents.pt", boxes)
    mirrored = len(pictures) % 2 == 0 and _is_mirrored(pictures)
    distinct = len(pictures) // 2 if mirrored else len(pictures)
    order = forward_backward(distinct) if mirrored else list(range(distinct))
    order = [0] * STILL_FRAMES if distinct == 1 else order
    size_px, last = (0, 0), None
    for i in range(distinct):
        rgb = load_picture(pictures[i])
        height, width = rgb.shape[:2]
        size_px = (width, height)
        writer.add_frame(rgb)
        last = _official_face(rgb, boxes[i], crops[i], masks[i], last, finder)
        writer.add_face(last, latents[i])
        progress((i + 1) / distinct)
    writer.finish(order)
    return _info(avatar_id, source, size_px, len(order), has_latents=True) | {
        "imported": {"layout": "musetalk", "pictures": len(pictures), "mirrored": mirrored}
    }


def _official_face(
    rgb: U8, box: Box, crop: Box, mask_file: Path, last: FramedFace | None, finder: FaceMesh
) -> FramedFace:
    height, width = rgb.shape[:2]
    nowhere = np.full((468, 2), np.nan, dtype=np.float32)
    if box == _NO_FACE:
        near = last or FramedFace(
            (0, 0, 2, 2),
            compute_avatar_crop_geometry(0, 0, 2, 2, width, height),
            np.zeros((1, 2, 2), dtype=np.float32),
            nowhere,
        )
        g = near.geometry
        return replace(near, mask=np.zeros((1, g.crop_height_px, g.crop_width_px), np.float32), landmarks=nowhere)
    if box[0] >= box[2] or box[1] >= box[3] or box[0] >= width or box[1] >= height or box[2] <= 0 or box[3] <= 0:
        raise PacketInvalid("coords.pkl", "face boxes inside the pictures", str(box))
    geometry = compute_avatar_crop_geometry(*box, width, height)
    mask = load_picture(mask_file)[:, :, 0]
    if mask.shape != (crop[3] - crop[1], crop[2] - crop[0]):
        raise PacketInvalid(f"mask/{mask_file.name}", f"the size of its crop {crop}", str(mask.shape))
    faces = finder.find(rgb)
    centre = ((box[0] + box[2]) / 2, (box[1] + box[3]) / 2)
    inside = (f for f in faces if f.box[0] <= centre[0] <= f.box[2] and f.box[1] <= centre[1] <= f.box[3])
    face = next(inside, None)
    return FramedFace(box, geometry, place(mask, crop, geometry), nowhere if face is None else face.points)


def _numbered(folder: Path) -> list[Path]:
    """Its pictures in number order."""
    if not folder.is_dir():
        raise PacketInvalid(folder.name, "a folder of numbered pictures", "none")
    found = [path for path in folder.iterdir() if path.suffix.lower() in (".png", ".jpg", ".jpeg")]
    if not all(path.stem.isdigit() and path.is_file() and not path.is_symlink() for path in found):
        raise PacketInvalid(folder.name, "pictures named by number", "others")
    if not 1 <= len(found) <= _MAX_FRAMES:
        raise PacketInvalid(folder.name, f"1 to {_MAX_FRAMES} pictures", f"{len(found)}")
    return sorted(found, key=lambda path: int(path.stem))


def _boxes(path: Path, count: int) -> list[Box]:
    try:
        rows = read_pickle(path.read_bytes(), path.name, numpy_names())
    except FileNotFoundError:
        raise PacketInvalid(path.name, "a file", "none") from None
    if not isinstance(rows, list) or len(rows) != count:
        found = f"{len(rows)} rows" if isinstance(rows, list) else type(rows).__name__
        raise PacketInvalid(path.name, f"a list of {count} boxes, one for each picture", found)
    for i, row in enumerate(rows):
        plain = isinstance(row, list | tuple) and len(row) == 4 and all(type(v) in (int, float) for v in row)
        if not plain or not all(abs(v) < 1 << 20 and v == int(v) for v in row):
            raise PacketInvalid(f"{path.name}[{i}]", "four whole numbers", type(row).__name__)
    return [(int(x1), int(y1), int(x2), int(y2)) for x1, y1, x2, y2 in rows]


def _official_latents(path: Path, boxes: list[Box]) -> list[F16]:
    """One for each picture. MuseTalk leaves out those without a face, so that every later one would be off by one."""
    try:
        with path.open("rb") as file:
            stored = TorchFile(file, path.name)
            stored.check_sums()
    except FileNotFoundError:
        raise PacketInvalid(path.name, "a file", "none") from None
    tensors = stored.root if isinstance(stored.root, list) else list(_as_array(stored.root, path.name))
    halves = [_latent(tensor, path.name, i) for i, tensor in enumerate(tensors)]
    with_face = [box != _NO_FACE for box in boxes]
    if len(halves) == len(boxes):
        return halves
    if not halves or len(halves) != sum(with_face):
        raise PacketInvalid(
            path.name, f"{len(boxes)} latents, or {sum(with_face)} for those with a face", f"{len(halves)}"
        )
    ordered, taken = [], -1
    for has_face in with_face:
        taken += has_face
        ordered.append(halves[max(0, taken)])
    return ordered


def _as_array(value: object, name: str) -> npt.NDArray[Any]:
    if not isinstance(value, np.ndarray):
        raise PacketInvalid(name, "a list of tensors", type(value).__name__)
    return value


def _latent(tensor: object, name: str, index: int) -> F16:
    array = _as_array(tensor, name)
    array = array[0] if array.ndim == 4 and len(array) == 1 else array
    if array.shape != (8, 32, 32) or array.dtype not in (np.float16, np.float32):
        expected = "(1, 8, 32, 32): masked 0..3 and reference 4..7; with 4 channels the mouth becomes a beige patch"
        raise PacketInvalid(f"{name}[{index}]", expected, f"{array.shape} {array.dtype}")
    half = array.astype(np.float16)
    if not np.isfinite(half).all():
        raise PacketInvalid(f"{name}[{index}]", "finite numbers", "NaN or infinity")
    return half


def _is_mirrored(pictures: list[Path]) -> bool:
    """Whether the second half is the first one backwards, byte for byte."""
    digests = [hashlib.sha256(path.read_bytes()).digest() for path in pictures]
    return digests == digests[::-1]


def _info(
    avatar_id: str, source: Path, size_px: tuple[int, int], cycle_frames: int, has_latents: bool
) -> dict[str, Any]:
    return {
        "packet_version": PACKET_VERSION,
        "avatar_id": avatar_id,
        "source": source.name,
        "kind": "portrait" if cycle_frames == STILL_FRAMES else "clip",
        "dimensions": {"width": size_px[0], "height": size_px[1]},
        "cycle_frames": cycle_frames,
        "channel_order": "rgb",
        "mask_source": "imported",
        "latent_encoder": {"name": "sd-vae-ft-mse", "revision": "imported"} if has_latents else None,
        "latents": "8 channels: 0..3 masked, 4..7 reference" if has_latents else NO_LATENTS,
    }


def _plain(info: Any) -> dict[str, str]:
    """What a stranger's description said, as short text."""
    return {str(key)[:40]: str(value)[:200] for key, value in list(info.items())[:32] if key not in ("digests",)}
