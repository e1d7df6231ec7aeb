"""Fills a folder with a packet: the seven files and the sidecars, frame by frame, in constant memory."""

from __future__ import annotations

import json
import pickle  # noqa: TID251 - writing lists of plain numbers; reading goes through avatars.pickles
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Any

import cv2
import numpy as np
import numpy.typing as npt

from avatars.colour import rgb_to_i420
from avatars.folder import INFO_FILE, sha256
from avatars.landing import even_size, find_landing
from avatars.packet import AvatarPacket, FramedFace
from avatars.tensorfile import TensorWriter
from avatars.torchfile import Tensor, TorchWriter, write_torch_file

U8 = npt.NDArray[np.uint8]
F16 = npt.NDArray[np.float16]

ANCHORS_FILE = "anchors.safetensors"
LANDINGS_FILE = "landings.safetensors"
LANDMARKS_FILE = "landmarks.safetensors"
ENGINE_PREFIX = "engine-"
"""Before the engine's name, of the file with what it keeps beside the packet."""
LATENT_SHAPE = (8, 32, 32)
_NO_MASK = np.zeros((1, 0, 0), dtype=np.float32)


class PacketWriter:
    """Takes the distinct frames in turn, then a face for each, then `finish`. Use as a context manager."""

    def __init__(self, folder: Path) -> None:
        self.frame_count = 0
        self._folder = folder
        self._stack = ExitStack()
        self._faces: list[FramedFace] = []
        self._masks: list[Tensor] = []
        self._last_mask: npt.NDArray[np.float32] | None = None
        self._latents: list[F16] = []
        self._rects: list[tuple[int, ...]] = []
        self._size_px = (0, 0)

    def __enter__(self) -> PacketWriter:
        enter = self._stack.enter_context
        self._frames_file = enter(TorchWriter(self._folder / "frames.pt"))
        self._masks_file = enter(TorchWriter(self._folder / "masks.pt"))
        self._anchors_file = enter(TensorWriter(self._folder / ANCHORS_FILE))
        self._landings_file = enter(TensorWriter(self._folder / LANDINGS_FILE))
        self._frames_file.begin_storage(np.dtype(np.uint8))
        self._masks_file.begin_storage(np.dtype("<f4"))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.__exit__(kind, error, trace)

    def add_frame(self, rgb: U8) -> None:
        """One more distinct frame, (H, W, 3) u8 RGB, all of one size."""
        height, width = rgb.shape[:2]
        if self.frame_count and (width, height) != self._size_px:
            raise ValueError("frames of one packet have one size")
        self._size_px = (width, height)
        for channel in cv2.split(rgb):
            self._frames_file.append(np.asarray(channel))
        even_width, even_height = even_size(width, height)
        self._anchors_file.append("planes", rgb_to_i420(rgb[:even_height, :even_width])[None])
        self.frame_count += 1

    def add_face(self, face: FramedFace, latent: F16 | None = None) -> None:
        """The face of the next frame that has none yet; latent (8, 32, 32) f16, for all frames or none."""
        if face.mask is not self._last_mask:
            mask = np.asarray(face.mask, dtype="<f4")
            offset = self._masks_file.append(mask)
            self._masks.append(Tensor(0, offset, mask.shape, (mask[0].size, mask.shape[2], 1)))
            self._last_mask = face.mask
        else:
            self._masks.append(self._masks[-1])
        self._faces.append(replace(face, mask=_NO_MASK))  # on disk by now
        if latent is not None:
            self._latents.append(latent)
        g = face.geometry
        landing = find_landing(face.mask, (g.x_s, g.y_s, g.x_e, g.y_e), face.box, self._size_px)
        self._rects.append((0, 0, 0, 0) if landing is None else landing.rect)
        self._landings_file.append("luma", np.zeros(0, np.uint8) if landing is None else landing.luma_mask.reshape(-1))

    def frames(self) -> Iterator[U8]:
        """The frames added so far, read back one by one as (H, W, 3) u8 RGB."""
        for i in range(self.frame_count):
            yield self.stored_frame(i)

    def finish(self, order: Sequence[int], *, materialise: bool = False) -> None:
        """Write what is left but `avator_info.json`. `order` names the distinct frame of each cycle frame.

        It begins with each distinct frame in turn. A single frame is stored once and repeated by its shape, unless
        `materialise` asks for real copies, which consumers that draw in place need.
        """
        count = self.frame_count
        if not count or list(order[:count]) != list(range(count)) or len(self._faces) != count:
            raise ValueError("the order begins with each distinct frame in turn, and each has a face")
        still = count == 1 and not materialise
        self._finish_frames(order, still)
        self._masks_file.finish([self._masks[i] for i in order])
        self._landings_file.add("rects", np.array(self._rects, dtype="<i4"))
        self._landings_file.add("order", np.array(order, dtype="<i4"))
        self._stack.close()
        self._write_latents(order, still)
        with TensorWriter(self._folder / LANDMARKS_FILE) as landmarks:
            landmarks.add("points", np.stack([face.landmarks for face in self._faces]).astype("<f4"))
        self._write_rows("geometry.pkl", [tuple(int(v) for v in face.geometry) for face in self._faces], order)
        self._write_rows("coords.pkl", [[int(v) for v in face.box] for face in self._faces], order)
        self._write_rows("mask_coords.pkl", [[int(v) for v in face.geometry[:4]] for face in self._faces], order)

    def stored_frame(self, index: int) -> U8:
        """One of the frames added so far, (H, W, 3) u8 RGB."""
        return np.ascontiguousarray(self._planes_of(index).transpose(1, 2, 0))

    def _planes_of(self, index: int) -> U8:
        """(3, H, W) u8 RGB"""
        width, height = self._size_px
        self._frames_file.flush()
        with (self._folder / "frames.pt").open("rb") as written:
            written.seek(self._frames_file.storage_starts[0] + index * 3 * height * width)
            return np.frombuffer(written.read(3 * height * width), dtype=np.uint8).reshape(3, height, width)

    def _finish_frames(self, order: Sequence[int], still: bool) -> None:
        width, height = self._size_px
        if not still:
            for i in order[self.frame_count :]:
                self._frames_file.append(self._planes_of(i))
        steps = (0 if still else 3 * height * width, height * width, width, 1)
        self._frames_file.finish(Tensor(0, 0, (len(order), 3, height, width), steps))

    def _write_latents(self, order: Sequence[int], still: bool) -> None:
        path = self._folder / "latents.pt"
        if not self._latents:
            write_torch_file(path, np.zeros((0, *LATENT_SHAPE), dtype="<f2"))
        elif still:
            write_torch_file(path, np.broadcast_to(self._latents[0], (len(order), *LATENT_SHAPE)))
        else:
            write_torch_file(path, np.stack([self._latents[i] for i in order]))

    def _write_rows(self, name: str, rows: Sequence[Any], order: Sequence[int]) -> None:
        (self._folder / name).write_bytes(pickle.dumps([rows[i] for i in order], protocol=2))


def write_info(folder: Path, info: Mapping[str, Any]) -> None:
    """`avator_info.json`: what is known of the packet, when it was made, and the SHA-256 of every other file."""
    digests = {}
    for path in sorted(folder.iterdir()):
        if path.name != INFO_FILE:
            with path.open("rb") as file:
                digests[path.name] = sha256(file)
    # The file system's clock: nothing here reads the time itself.
    made_at = datetime.fromtimestamp(int((folder / "frames.pt").stat().st_mtime), UTC).isoformat()
    _write_json(folder, {**info, "timestamp": made_at, "digests": digests})


def add_sidecar(folder: Path, info: Mapping[str, Any], name: str, arrays: Mapping[str, npt.NDArray[Any]]) -> None:
    """One sidecar more in a folder that holds the packet's other files, and the `avator_info.json` that lists it."""
    with TensorWriter(folder / name) as writer:
        for array_name, values in arrays.items():
            writer.add(array_name, values)
    with (folder / name).open("rb") as file:
        digest = sha256(file)
    _write_json(folder, {**info, "digests": {**info["digests"], name: digest}})


def _write_json(folder: Path, info: Mapping[str, Any]) -> None:
    text = json.dumps(info, indent=2, ensure_ascii=False)
    (folder / INFO_FILE).write_text(text + "\n", encoding="utf-8")


def write_still(packet: AvatarPacket, folder: Path, *, materialise: bool = False) -> None:
    """A packet of one repeated frame, as `precompile_portrait` makes it, into a folder; but for `avator_info.json`."""
    frame = np.ascontiguousarray(packet.frames[0].transpose(1, 2, 0))
    points = packet.landmarks[0] if packet.landmarks is not None else np.full((468, 2), np.nan, np.float32)
    face = FramedFace(packet.coords[0], packet.geometry[0], packet.masks[0], points)
    with PacketWriter(folder) as writer:
        writer.add_frame(frame)
        writer.add_face(face, None if packet.latents is None else packet.latents[0])
        writer.finish([0] * packet.cycle_frames, materialise=materialise)
