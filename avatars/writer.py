"""Fills a folder with a packet: the seven files and the sidecars, frame by frame, in constant memory."""

from __future__ import annotations

import json
import pickle  # noqa: TID251 - writing lists of plain numbers; reading goes through avatars.pickles
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
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
LATENT_SHAPE = (8, 32, 32)


class PacketWriter:
    """Takes the distinct frames in order, then `finish`. Use as a context manager."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._stack = ExitStack()
        self._faces: list[tuple[FramedFace, Tensor]] = []
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

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    @property
    def frame_count(self) -> int:
        return len(self._faces)

    def add(self, rgb: U8, face: FramedFace, latent: F16 | None = None) -> None:
        """One more distinct frame, (H, W, 3) u8 RGB, all of one size; latent (8, 32, 32) f16, for all or none."""
        height, width = rgb.shape[:2]
        if self._faces and (width, height) != self._size_px:
            raise ValueError("frames of one packet have one size")
        self._size_px = (width, height)
        for channel in cv2.split(rgb):
            self._frames_file.append(np.asarray(channel))
        mask = np.asarray(face.mask, dtype="<f4")
        offset = self._masks_file.append(mask)
        self._faces.append((face, Tensor(0, offset, mask.shape, (mask[0].size, mask.shape[2], 1))))
        if latent is not None:
            self._latents.append(latent)
        even_width, even_height = even_size(width, height)
        self._anchors_file.append("planes", rgb_to_i420(rgb[:even_height, :even_width])[None])
        g = face.geometry
        landing = find_landing(face.mask, (g.x_s, g.y_s, g.x_e, g.y_e), face.box, self._size_px)
        self._rects.append((0, 0, 0, 0) if landing is None else landing.rect)
        self._landings_file.append("luma", np.zeros(0, np.uint8) if landing is None else landing.luma_mask.reshape(-1))

    def finish(self, order: Sequence[int], info: Mapping[str, Any], *, materialise: bool = False) -> None:
        """Write what is left. `order` says which distinct frame each cycle frame is; each comes first in turn.

        A single frame is stored once and repeated by its shape, unless `materialise` asks for real copies, which
        consumers that draw in place need.
        """
        count = self.frame_count
        if list(order[:count]) != list(range(count)):
            raise ValueError("the order begins with each distinct frame in turn")
        still = count == 1 and not materialise
        self._finish_frames(order, still)
        self._masks_file.finish([self._faces[i][1] for i in order])
        self._landings_file.add("rects", np.array(self._rects, dtype="<i4"))
        self._landings_file.add("order", np.array(order, dtype="<i4"))
        self._stack.close()
        self._write_latents(order, still)
        with TensorWriter(self._folder / LANDMARKS_FILE) as landmarks:
            landmarks.add("points", np.stack([face.landmarks for face, _ in self._faces]).astype("<f4"))
        faces = [self._faces[i][0] for i in order]
        self._write_pickle("geometry.pkl", [tuple(int(v) for v in face.geometry) for face in faces])
        self._write_pickle("coords.pkl", [[int(v) for v in face.box] for face in faces])
        self._write_pickle("mask_coords.pkl", [[int(v) for v in face.geometry[:4]] for face in faces])
        self.write_info(info)

    def write_info(self, info: Mapping[str, Any]) -> None:
        """The metadata, with the digest of every file that lies in the folder now."""
        write_info(self._folder, info)

    def _finish_frames(self, order: Sequence[int], still: bool) -> None:
        width, height = self._size_px
        frame_bytes = 3 * height * width
        if not still:
            self._frames_file.flush()
            with (self._folder / "frames.pt").open("rb") as written:
                for i in order[self.frame_count :]:
                    written.seek(self._frames_file.storage_starts[0] + i * frame_bytes)
                    self._frames_file.append(np.frombuffer(written.read(frame_bytes), dtype=np.uint8))
        steps = (0 if still else frame_bytes, height * width, width, 1)
        self._frames_file.finish(Tensor(0, 0, (len(order), 3, height, width), steps))

    def _write_latents(self, order: Sequence[int], still: bool) -> None:
        path = self._folder / "latents.pt"
        if not self._latents:
            write_torch_file(path, np.zeros((0, *LATENT_SHAPE), dtype="<f2"))
        elif still:
            write_torch_file(path, np.broadcast_to(self._latents[0], (len(order), *LATENT_SHAPE)))
        else:
            write_torch_file(path, np.stack([self._latents[i] for i in order]))

    def _write_pickle(self, name: str, values: list[Any]) -> None:
        (self._folder / name).write_bytes(pickle.dumps(values, protocol=2))


def write_info(folder: Path, info: Mapping[str, Any]) -> None:
    """`avator_info.json` with the SHA-256 of every other file of the folder."""
    digests = {}
    for path in sorted(folder.iterdir()):
        if path.name != INFO_FILE:
            with path.open("rb") as file:
                digests[path.name] = sha256(file)
    text = json.dumps({**info, "digests": digests}, indent=2, ensure_ascii=False)
    (folder / INFO_FILE).write_text(text + "\n", encoding="utf-8")


def write_still(packet: AvatarPacket, folder: Path, *, materialise: bool = False) -> None:
    """A packet of one repeated frame, as `precompile_portrait` makes it, into a folder."""
    frame = np.ascontiguousarray(packet.frames[0].transpose(1, 2, 0))
    points = packet.landmarks[0] if packet.landmarks is not None else np.full((468, 2), np.nan, np.float32)
    face = FramedFace(packet.coords[0], packet.geometry[0], packet.masks[0], points)
    with PacketWriter(folder) as writer:
        writer.add(frame, face, None if packet.latents is None else packet.latents[0])
        writer.finish([0] * packet.cycle_frames, packet.info, materialise=materialise)
