"""Opens a packet folder: the files mapped in place, everything checked, anything odd refused by field."""

from __future__ import annotations

import json
import logging
import os
import threading
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.typing as npt

from avatars.errors import PacketInvalid, PacketVersion
from avatars.folder import INFO_FILE, SEVEN, FileIdentity, PacketFolder, identity, sha256
from avatars.geometry import Geometry
from avatars.idle import IDLE_FILE, MAX_BYTES, IdleFrames, read_idle
from avatars.landing import even_size
from avatars.packet import Anchors, AvatarPacket
from avatars.pickles import read_pickle
from avatars.precompile import PACKET_VERSION
from avatars.tensorfile import read_tensor_file
from avatars.torchfile import TorchFile, read_torch_file
from avatars.writer import ANCHORS_FILE, ENGINE_PREFIX, LANDINGS_FILE, LANDMARKS_FILE

logger = logging.getLogger(__name__)

F16 = npt.NDArray[np.float16]
F32 = npt.NDArray[np.float32]
I32 = npt.NDArray[np.int32]
U8 = npt.NDArray[np.uint8]
Array = npt.NDArray[Any]
Files = Mapping[str, IO[bytes]]
Names = Mapping[str, Callable[..., Any]]
Rows = list[tuple[int, ...]]

MAX_CYCLE_FRAMES = 4000
MAX_SIDE_PX = 8192
_MAX_PICKLE_BYTES = 8 << 20
_MAX_INFO_BYTES = 4 << 20
_FAR_PX = 1 << 20
_FOUR_CHANNELS = (
    "8 channels: 0..3 the masked latent, 4..7 the reference. With 4 the network has no reference for identity and skin "
    "and paints a flat beige patch; encode again with both halves"
)


class Inspected:
    """The file versions whose bytes this process has already hashed and searched; later opens check structure."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._passed: set[tuple[FileIdentity, ...]] = set()

    def __contains__(self, version: tuple[FileIdentity, ...]) -> bool:
        with self._lock:
            return version in self._passed

    def add(self, version: tuple[FileIdentity, ...]) -> None:
        with self._lock:
            self._passed.add(version)


def open_packet(
    path: Path, avatar_id: str, inspected: Inspected, names: Names | None = None, *, whole: bool = False
) -> AvatarPacket:
    """The packet of a folder, read-only over the mapped files.

    The first open of each version of the files hashes them and searches their values; later ones check structure.
    Packets made elsewhere carry no digests: they are searched alike. `names` are what pickles may hold beside plain
    numbers. Idle frames that are damaged are left out, unless the `whole` packet is asked for: without them it stands
    still. Raises FileNotFoundError, PacketInvalid, PacketVersion.
    """
    with PacketFolder(path) as folder, ExitStack() as stack:
        info = _read_info(stack.enter_context(folder.open(INFO_FILE)), avatar_id)
        digests = _listed_digests(info)
        idle_digest = digests.pop(IDLE_FILE, None)
        wanted = sorted({*SEVEN, *digests} - {INFO_FILE})
        files = {name: stack.enter_context(folder.open(name)) for name in wanted}
        version = tuple(identity(file) for file in files.values())
        search = version not in inspected
        if search and digests:
            _check_digests(files, digests)
        elif search:
            for name in ("frames.pt", "latents.pt", "masks.pt"):
                TorchFile(files[name], name).check_sums()
        packet = _read_seven(files, avatar_id, info, names or {}, search=search)
        if digests.keys() >= {ANCHORS_FILE, LANDINGS_FILE, LANDMARKS_FILE}:
            packet = _with_sidecars(packet, files)
        if kept := _engine_sidecars(files):
            packet = replace(packet, sidecars=kept)
        inspected.add(version)
        if idle_digest is not None:
            try:
                packet = replace(packet, idle=_idle(folder, idle_digest, packet, inspected))
            except PacketInvalid as error:
                if whole:
                    raise
                logger.warning("idle_frames_refused", extra={"avatar": avatar_id, "reason": str(error)})
        return packet


def _read_seven(files: Files, avatar_id: str, info: dict[str, Any], names: Names, *, search: bool) -> AvatarPacket:
    frames = _frames(read_torch_file(files["frames.pt"], "frames.pt"))
    if info.get("channel_order") == "bgr":
        frames = frames[:, ::-1]
    count = len(frames)
    geometry = _geometry(_rows(files, "geometry.pkl", count, 8, names))
    latents = read_torch_file(files["latents.pt"], "latents.pt")
    ours = "digests" in info and info.get("latent_encoder") is None
    return AvatarPacket(
        avatar_id=avatar_id,
        frames=frames,
        latents=_latents(latents, count, may_be_empty=ours, search=search),
        masks=_masks(read_torch_file(files["masks.pt"], "masks.pt"), count, search=search),
        geometry=geometry,
        coords=_coords(
            _rows(files, "coords.pkl", count, 4, names), _rows(files, "mask_coords.pkl", count, 4, names), geometry
        ),
        info=info,
    )


def _check_digests(files: Files, digests: Mapping[str, str]) -> None:
    for name, digest in digests.items():
        if sha256(files[name]) != digest:
            raise PacketInvalid(name, "the bytes that were written (SHA-256)", "other bytes: make the packet again")


def read_info(path: Path, avatar_id: str) -> dict[str, Any]:
    """`avator_info.json` alone. Raises FileNotFoundError, PacketInvalid, PacketVersion."""
    with PacketFolder(path) as folder, folder.open(INFO_FILE) as file:
        return _read_info(file, avatar_id)


def _read_info(file: IO[bytes], avatar_id: str) -> dict[str, Any]:
    text = _read_up_to(file, _MAX_INFO_BYTES)
    try:
        info = json.loads(text, parse_int=_sane_integer) if len(text) <= _MAX_INFO_BYTES else None
        if b"\\u" in text:
            json.dumps(info, ensure_ascii=False).encode()  # half a surrogate pair could be shown nowhere
    except (ValueError, RecursionError):
        info = None
    if not isinstance(info, dict):
        raise PacketInvalid(INFO_FILE, "a JSON object", "something else")
    version = info.get("packet_version", PACKET_VERSION)
    if version != PACKET_VERSION:
        raise PacketVersion(PACKET_VERSION, str(version)[:40])
    if info.get("avatar_id", avatar_id) != avatar_id:
        raise PacketInvalid(f"{INFO_FILE}: avatar_id", repr(avatar_id), repr(str(info["avatar_id"])[:80]))
    return info


def _read_up_to(file: IO[bytes], limit: int) -> bytes:
    """A whole file, or one byte more than the limit: asking for what is not there costs memory for it."""
    return file.read(min(os.fstat(file.fileno()).st_size, limit) + 1)


def _sane_integer(text: str) -> int:
    """Numbers that fit 64 bits, as every reader of JSON understands."""
    value = int(text)
    if not -(1 << 63) <= value < 1 << 63:
        raise ValueError("a number of too many digits")
    return value


def _listed_digests(info: Mapping[str, Any]) -> dict[str, str]:
    """Digests by file name; empty where the packet was made elsewhere and lists none."""
    digests = info.get("digests", {})
    if not isinstance(digests, dict):
        raise PacketInvalid(f"{INFO_FILE}: digests", "an object of SHA-256 by file name", "something else")
    for name, digest in digests.items():
        if "/" in name or "\\" in name or name.startswith(".") or not isinstance(digest, str):
            raise PacketInvalid(f"{INFO_FILE}: digests", "plain file names", repr(name[:80]))
    if digests and not digests.keys() >= set(SEVEN) - {INFO_FILE}:
        raise PacketInvalid(f"{INFO_FILE}: digests", "one for each of the seven files", "fewer")
    return dict(digests)


def _frames(frames: object) -> U8:
    if not isinstance(frames, np.ndarray) or frames.dtype != np.uint8 or frames.ndim != 4 or frames.shape[1] != 3:
        raise PacketInvalid("frames.pt", "(N, 3, H, W) uint8", _describe(frames))
    count, _, height, width = frames.shape
    if not 1 <= count <= MAX_CYCLE_FRAMES or min(width, height) < 2 or max(width, height) > MAX_SIDE_PX:
        raise PacketInvalid(
            "frames.pt", f"1 to {MAX_CYCLE_FRAMES} frames of 2 to {MAX_SIDE_PX} pixels", _describe(frames)
        )
    if not 0 < frames.strides[3] <= frames.strides[2] <= frames.strides[1]:
        raise PacketInvalid("frames.pt", "rows and planes in order", f"strides {frames.strides}")
    return frames


def _latents(latents: object, count: int, *, may_be_empty: bool, search: bool) -> F16 | None:
    if not isinstance(latents, np.ndarray) or latents.dtype != np.float16 or latents.ndim != 4:
        raise PacketInvalid("latents.pt", f"({count}, 8, 32, 32) float16", _describe(latents))
    if latents.shape[1] == 4:
        raise PacketInvalid("latents.pt", _FOUR_CHANNELS, _describe(latents))
    if latents.shape == (0, 8, 32, 32) and may_be_empty:
        return None
    if latents.shape != (count, 8, 32, 32):
        raise PacketInvalid("latents.pt", f"({count}, 8, 32, 32), one for each frame", _describe(latents))
    once = latents[:1] if latents.strides[0] == 0 else latents
    if search and not np.isfinite(once).all():
        raise PacketInvalid("latents.pt", "finite numbers", "NaN or infinity")
    return latents


def _masks(masks: object, count: int, *, search: bool) -> tuple[F32, ...]:
    if not isinstance(masks, list) or len(masks) != count:
        found = f"{len(masks)} entries" if isinstance(masks, list) else _describe(masks)
        raise PacketInvalid("masks.pt", f"a list of {count} tensors, one for each frame", found)
    checked: list[F32] = []
    searched: set[tuple[int, tuple[int, ...]]] = set()
    for i, mask in enumerate(masks):
        if not isinstance(mask, np.ndarray) or mask.dtype not in (np.float32, np.float16) or mask.ndim != 3:
            raise PacketInvalid(f"masks.pt[{i}]", "(1, crop_h, crop_w) float32", _describe(mask))
        mask = mask if mask.dtype == np.float32 else mask.astype(np.float32)
        key = (mask.__array_interface__["data"][0], mask.shape)
        # NaN fails both comparisons.
        if search and key not in searched and not (mask.size and mask.min() >= 0.0 and mask.max() <= 1.0):
            raise PacketInvalid(f"masks.pt[{i}]", "values from 0 to 1", "values outside, or none")
        searched.add(key)
        checked.append(mask)
    return tuple(checked)


def _rows(files: Files, name: str, count: int, width: int, names: Names) -> Rows:
    """A pickled list of `count` tuples or lists of `width` plain integers."""
    files[name].seek(0)
    data = _read_up_to(files[name], _MAX_PICKLE_BYTES)
    if len(data) > _MAX_PICKLE_BYTES:
        raise PacketInvalid(name, f"at most {_MAX_PICKLE_BYTES >> 20} MiB", "more")
    rows = read_pickle(data, name, names)
    if not isinstance(rows, list) or len(rows) != count:
        found = f"{len(rows)} rows" if isinstance(rows, list) else type(rows).__name__
        raise PacketInvalid(name, f"a list of {count} rows, one for each frame", found)
    for i, row in enumerate(rows):
        if type(row) not in (list, tuple) or len(row) != width or set(map(type, row)) != {int}:
            raise PacketInvalid(f"{name}[{i}]", f"{width} whole numbers", type(row).__name__)
        if max(row) > _FAR_PX or min(row) < -_FAR_PX:
            raise PacketInvalid(f"{name}[{i}]", "pixels", "a number far outside any picture")
    return [tuple(row) for row in rows]


def _geometry(rows: Rows) -> tuple[Geometry, ...]:
    geometry = tuple(Geometry(*row) for row in rows)
    for i, g in enumerate(geometry):
        inside = 0 <= g.rel_x < g.crop_width_px and 0 <= g.rel_y < g.crop_height_px
        if not inside or g.rel_w < 1 or g.rel_h < 1:
            raise PacketInvalid(f"geometry.pkl[{i}]", "a face box inside the crop", str(tuple(g)))
    return geometry


def _coords(boxes: Rows, mirrors: Rows, geometry: tuple[Geometry, ...]) -> tuple[tuple[int, int, int, int], ...]:
    """Face boxes, which geometry must agree with; and the crops' mirror, which some makers fill with face boxes."""
    for i, (box, mirror, g) in enumerate(zip(boxes, mirrors, geometry, strict=True)):
        x1, y1, x2, y2 = box
        if x1 >= x2 or y1 >= y2:
            raise PacketInvalid(f"coords.pkl[{i}]", "x1 < x2 and y1 < y2", str(box))
        expected = (max(0, x1 - g.x_s), max(0, y1 - g.y_s))
        if (g.rel_x, g.rel_y) != expected or g.rel_w > x2 - x1 or g.rel_h > y2 - y1:
            raise PacketInvalid(f"coords.pkl[{i}]", f"the face box that geometry has: {tuple(g)}", str(box))
        if mirror not in (tuple(g[:4]), box):
            raise PacketInvalid(f"mask_coords.pkl[{i}]", f"the crop rectangle {tuple(g[:4])}", str(mirror))
    return tuple((x1, y1, x2, y2) for x1, y1, x2, y2 in boxes)


def _with_sidecars(packet: AvatarPacket, files: Files) -> AvatarPacket:
    """The packet with the sidecars that its digests list; without digests nothing would tie them to the seven."""
    planes = read_tensor_file(files[ANCHORS_FILE], ANCHORS_FILE).get("planes")
    landings = read_tensor_file(files[LANDINGS_FILE], LANDINGS_FILE)
    order, rects, luma = landings.get("order"), landings.get("rects"), landings.get("luma")
    width, height = even_size(*packet.size_px)
    if planes is None or planes.dtype != np.uint8 or planes.shape[1:] != (height * 3 // 2, width) or not len(planes):
        raise PacketInvalid(ANCHORS_FILE, f"planes (M, {height * 3 // 2}, {width}) uint8", _describe(planes))
    count = len(planes)
    if order is None or order.dtype != np.int32 or order.shape != (packet.cycle_frames,):
        raise PacketInvalid(LANDINGS_FILE, f"order ({packet.cycle_frames},) int32", _describe(order))
    if order.min() < 0 or order.max() >= count:
        raise PacketInvalid(LANDINGS_FILE, f"order in 0..{count - 1}", "a frame that is not there")
    rects, masks = _landings(rects, luma, (width, height), count)
    points = read_tensor_file(files[LANDMARKS_FILE], LANDMARKS_FILE).get("points")
    landmarks = _landmarks(points, order, count)
    return replace(packet, landmarks=landmarks, anchors=Anchors(planes, order, rects, masks))


def _engine_sidecars(files: Files) -> dict[str, Mapping[str, Array]]:
    """By engine; only files that the digests list are among those opened."""
    names = [name for name in files if name.startswith(ENGINE_PREFIX) and name.endswith(".safetensors")]
    return {
        name.removeprefix(ENGINE_PREFIX).removesuffix(".safetensors"): read_tensor_file(files[name], name)
        for name in names
    }


def _idle(folder: PacketFolder, digest: str, packet: AvatarPacket, inspected: Inspected) -> IdleFrames:
    """The idle frames of a portrait, hashed once."""
    with folder.open(IDLE_FILE) as file:
        version = (identity(file),)
        if version[0].size > MAX_BYTES:
            raise PacketInvalid(IDLE_FILE, f"at most {MAX_BYTES} bytes", str(version[0].size))
        if version not in inspected and sha256(file) != digest:
            raise PacketInvalid(IDLE_FILE, "the bytes that were written (SHA-256)", "other bytes")
        idle = read_idle(read_tensor_file(file, IDLE_FILE), packet.size_px)
    inspected.add(version)
    return idle


def _landings(
    rects: Array | None, luma: Array | None, size_px: tuple[int, int], count: int
) -> tuple[I32, tuple[U8, ...]]:
    if rects is None or rects.dtype != np.int32 or rects.shape != (count, 4):
        raise PacketInvalid(LANDINGS_FILE, f"rects ({count}, 4) int32", _describe(rects))
    if luma is None or luma.dtype != np.uint8 or luma.ndim != 1:
        raise PacketInvalid(LANDINGS_FILE, "luma masks, (n,) uint8", _describe(luma))
    masks, start = [], 0
    for x1, y1, x2, y2 in rects.tolist():
        odd = (x1 | y1 | x2 | y2) & 1
        if odd or not (0 <= x1 <= x2 <= size_px[0] and 0 <= y1 <= y2 <= size_px[1]):
            raise PacketInvalid(LANDINGS_FILE, "even rectangles inside the frame", str((x1, y1, x2, y2)))
        end = start + (x2 - x1) * (y2 - y1)
        masks.append((luma[start:end], y2 - y1, x2 - x1))
        start = end
    if start != luma.size:
        raise PacketInvalid(LANDINGS_FILE, f"{start} mask pixels, as many as the rectangles have", str(luma.size))
    return rects, tuple(mask.reshape(rows, columns) for mask, rows, columns in masks)


def _landmarks(points: Array | None, order: I32, count: int) -> F32:
    if points is None or points.dtype != np.float32 or points.shape != (count, 468, 2):
        raise PacketInvalid(LANDMARKS_FILE, f"points ({count}, 468, 2) float32", _describe(points))
    if count == 1:
        return np.broadcast_to(points[0], (len(order), 468, 2))
    ordered: F32 = points[order]
    ordered.flags.writeable = False
    return ordered


def _describe(value: object) -> str:
    if isinstance(value, np.ndarray):
        return f"{value.shape} {value.dtype}"
    return "nothing" if value is None else type(value).__name__
