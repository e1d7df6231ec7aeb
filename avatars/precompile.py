"""From a picture to an avatar packet in memory. What it needs from engines it states as protocols."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import cv2
import numpy as np
import numpy.typing as npt

from avatars.blend import Box
from avatars.errors import FaceNotFound, PacketInvalid, PortraitRejected
from avatars.facebox import OFFICIAL_MARGIN_PX, fitted_face_box, landmarks68, official_face_box
from avatars.geometry import compute_avatar_crop_geometry
from avatars.masks import (
    MESH_SOFTNESS,
    PARSE_PX,
    mesh_region,
    parse_region,
    place,
    region_to_crop,
    soften,
    unclamped_crop,
)
from avatars.packet import AvatarPacket, FramedFace
from avatars.picture import fit_inside
from avatars.report import Report, inspect_face

if TYPE_CHECKING:
    from avatars.faces import FaceLandmarks

U8 = npt.NDArray[np.uint8]
F16 = npt.NDArray[np.float16]
F32 = npt.NDArray[np.float32]

PACKET_VERSION = 1
NO_LATENTS = "none: no encoder was at hand; engines that need none (warp) work, MuseTalk needs the packet made again"
CROP_PX = 256
"""Side of the square a latent encoder sees."""
MIN_FACE_PX = 48
MAX_ROLL_DEG = 60.0
MIN_FRAME_PX = 64


class FaceFinder(Protocol):
    """Finds faces in (H, W, 3) u8 RGB pictures."""

    def find(self, rgb: U8) -> list[FaceLandmarks]:
        """All of them, largest first."""
        ...

    def follow(self, rgb: U8, previous: FaceLandmarks) -> FaceLandmarks | None:
        """The same face in the next frame of a clip."""
        ...


class LatentEncoder(Protocol):
    """An engine's picture encoder."""

    @property
    def name(self) -> str: ...

    @property
    def revision(self) -> str:
        """Changes whenever its latents would."""
        ...

    def encode(self, crops: U8) -> F16:
        """(B, 256, 256, 3) u8 RGB face boxes to (B, 8, 32, 32) f16: channels 0..3 masked, 4..7 reference."""
        ...


class FaceParser(Protocol):
    """A network that names the parts of a face."""

    def parse(self, crop: U8) -> U8:
        """(512, 512, 3) u8 RGB to (512, 512) u8 classes in CelebAMask order."""
        ...


class SidecarBuilder(Protocol):
    """What an engine wants kept beside the packet, such as warp fields; found again in `packet.sidecars[name]`."""

    @property
    def name(self) -> str: ...

    @property
    def revision(self) -> str: ...

    def build(self, packet: AvatarPacket) -> Mapping[str, npt.NDArray[Any]]: ...


class Footage(Protocol):
    """Frames to make a packet of: a clip, or a loop."""

    @property
    def name(self) -> str: ...

    @property
    def size_px(self) -> tuple[int, int]:
        """(width, height)"""
        ...

    @property
    def expected_frames(self) -> int:
        """0 where nobody knows."""
        ...

    def __iter__(self) -> Iterator[U8]:
        """(H, W, 3) u8 RGB, 25 a second; may be slow."""
        ...


class IdleAnimator(Protocol):
    """An engine that gives a still portrait a living idle loop."""

    @property
    def name(self) -> str: ...

    @property
    def revision(self) -> str:
        """Changes whenever its frames would."""
        ...

    def animate(self, rgb: U8, finder: FaceFinder, source: str, face: int) -> Footage:
        """A loop without a seam of a picture (H, W, 3) u8 RGB, of which `face` moves, 0 the largest.

        Raises FaceNotFound.
        """
        ...


@dataclass(frozen=True, slots=True)
class Makers:
    """The engines' parts in precompilation; each may be missing."""

    latents: LatentEncoder | None = None
    parser: FaceParser | None = None
    official_margin: bool = False
    """The network was trained on face boxes with MuseTalk's own margin under the chin."""
    idle: IdleAnimator | None = None


@dataclass(frozen=True, slots=True)
class FaceSettings:
    """How a face is framed, and how much of its source is kept."""

    face: int = 0
    """Which one, where there are several: 0 is the largest."""
    bbox_shift_px: int = 0
    chin_margin: float = 0.16
    """Room under the chin, a share of the face box's height."""
    official_margin: bool = False
    """MuseTalk's own 10 px instead, for its network."""
    max_width_px: int = 1920
    max_height_px: int = 1080
    cycle_frames: int = 25
    """Of a portrait; a clip has as many as it has."""


def precompile_portrait(
    rgb: U8,
    avatar_id: str,
    finder: FaceFinder,
    *,
    source: str = "the picture",
    settings: FaceSettings | None = None,
    makers: Makers | None = None,
) -> AvatarPacket:
    """A packet of one still picture, its frames, latents and masks one set shared by all cycle frames.

    rgb (H, W, 3) u8. Raises FaceNotFound, PortraitRejected.
    """
    settings, makers = settings or FaceSettings(), makers or Makers()
    rgb = fit_inside(rgb, settings.max_width_px, settings.max_height_px)
    height, width = rgb.shape[:2]
    if min(height, width) < MIN_FRAME_PX:
        reason = f"{width} x {height} pixels are too few"
        raise PortraitRejected(source, reason, "use a picture of at least 256 pixels a side")
    faces = finder.find(rgb)
    face = choose_face(faces, settings.face, source)
    framed = frame_face(rgb, face.points, settings, makers.parser, source)
    report = inspect_face(rgb, face.points, face.depth, framed.box, len(faces))
    if abs(report.roll_deg) > MAX_ROLL_DEG:
        reason = f"the head leans by {abs(report.roll_deg):.0f} degrees"
        raise PortraitRejected(source, reason, "turn the picture upright")
    frames = read_only(np.ascontiguousarray(rgb.transpose(2, 0, 1)))
    latents = None
    if makers.latents is not None:
        latent = encode_face(makers.latents, rgb, framed.box)
        latents = np.broadcast_to(latent, (settings.cycle_frames, 8, 32, 32))
    count = settings.cycle_frames
    return AvatarPacket(
        avatar_id=avatar_id,
        frames=np.broadcast_to(frames, (count, 3, height, width)),
        latents=latents,
        masks=(framed.mask,) * count,
        geometry=(framed.geometry,) * count,
        coords=(framed.box,) * count,
        landmarks=np.broadcast_to(framed.landmarks, (count, 468, 2)),
        info=packet_info(source, (width, height), count, makers, report) | {"avatar_id": avatar_id},
    )


def packet_info(
    source: str, size_px: tuple[int, int], cycle_frames: int, makers: Makers, report: Report
) -> dict[str, Any]:
    """What `avator_info.json` says of a packet, but for its id, digests and timestamp."""
    encoder = makers.latents
    return {
        "packet_version": PACKET_VERSION,
        "source": source,
        "kind": "portrait",
        "dimensions": {"width": size_px[0], "height": size_px[1]},
        "cycle_frames": cycle_frames,
        "channel_order": "rgb",
        "mask_source": "landmarks" if makers.parser is None else "parser",
        "latent_encoder": None if encoder is None else {"name": encoder.name, "revision": encoder.revision},
        "latents": NO_LATENTS if encoder is None else "8 channels: 0..3 masked, 4..7 reference",
        "report": report.as_dict(),
    }


def choose_face(faces: list[FaceLandmarks], wanted: int, source: str) -> FaceLandmarks:
    """The wanted one of the faces found, largest first. Raises FaceNotFound."""
    if not faces:
        raise FaceNotFound(source)
    if not 0 <= wanted < len(faces):
        raise FaceNotFound(source, f"face {wanted} was asked for, it has {len(faces)}: use 0 to {len(faces) - 1}")
    return faces[wanted]


def frame_face(rgb: U8, mesh: F32, settings: FaceSettings, parser: FaceParser | None, source: str) -> FramedFace:
    """Face box, clamped crop and mask of one face, given its (468, 2) mesh; only a parser looks at the pixels.

    Raises PortraitRejected where the face does not fit the frame.
    """
    height, width = rgb.shape[:2]
    box = face_box(mesh, (width, height), settings)
    if box is None or box[0] >= box[2] or box[1] >= box[3]:
        raise PortraitRejected(source, "the face lies outside the picture", "use a picture that shows the whole face")
    if box[2] - box[0] < MIN_FACE_PX or box[3] - box[1] < MIN_FACE_PX:
        reason = f"the face is only {box[2] - box[0]} x {box[3] - box[1]} pixels"
        raise PortraitRejected(source, reason, "crop the picture closer to the face, or use a larger one")
    geometry = compute_avatar_crop_geometry(*box, width, height)
    crop = unclamped_crop(box)
    if parser is None:
        soft = soften(mesh_region(mesh, crop, box), crop, box, softness=MESH_SOFTNESS)
    else:
        region = parse_region(parser.parse(_parser_crop(rgb, crop)))
        soft = soften(region_to_crop(region, crop[2] - crop[0]), crop, box)
    mask = read_only(place(soft, crop, geometry))
    return FramedFace(box, geometry, mask, read_only(mesh.astype(np.float32)))


def face_box(mesh: F32, frame_size_px: tuple[int, int], settings: FaceSettings) -> Box | None:
    """The face box of a (468, 2) mesh, or None where the official rule gives none."""
    points = landmarks68(mesh)
    if settings.official_margin:
        box = official_face_box(points, frame_size_px[1], settings.bbox_shift_px, OFFICIAL_MARGIN_PX)
        return None if box is None else (box[0], box[1], min(box[2], frame_size_px[0]), box[3])
    return fitted_face_box(points, frame_size_px, settings.chin_margin, settings.bbox_shift_px)


def latent_crop(rgb: U8, box: Box) -> U8:
    """The face box as a latent encoder sees it: (256, 256, 3) u8 RGB."""
    x1, y1, x2, y2 = box
    crop = np.ascontiguousarray(rgb[y1:y2, x1:x2])
    return np.asarray(cv2.resize(crop, (CROP_PX, CROP_PX), interpolation=cv2.INTER_LANCZOS4), dtype=np.uint8)


def encode_face(encoder: LatentEncoder, rgb: U8, box: Box) -> F16:
    """(8, 32, 32) f16, read-only, of one face box. Raises PacketInvalid where the encoder gives anything else."""
    encoded = np.asarray(encoder.encode(latent_crop(rgb, box)[None]))
    if encoded.shape != (1, 8, 32, 32) or encoded.dtype.kind != "f":
        expected = "(1, 8, 32, 32) float16 of one crop: masked 0..3 and reference 4..7"
        raise PacketInvalid(f"latents of encoder {encoder.name}", expected, f"{encoded.shape} {encoded.dtype}")
    with np.errstate(over="ignore"):
        latent = encoded[0].astype(np.float16)
    if not np.isfinite(latent).all():
        raise PacketInvalid(f"latents of encoder {encoder.name}", "finite float16 numbers", "NaN or infinity")
    return read_only(latent)


def read_only(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    array.flags.writeable = False
    return array


def _parser_crop(rgb: U8, crop: Box) -> U8:
    """The unclamped crop at the parser's size, the frame's edge pixels continued outside."""
    height, width = rgb.shape[:2]
    x1, y1, x2, y2 = crop
    inside = rgb[max(0, y1) : min(height, y2), max(0, x1) : min(width, x2)]
    edges = (max(0, -y1), max(0, y2 - height), max(0, -x1), max(0, x2 - width))
    whole = cv2.copyMakeBorder(inside, *edges, cv2.BORDER_REPLICATE)
    return np.asarray(cv2.resize(whole, (PARSE_PX, PARSE_PX), interpolation=cv2.INTER_LINEAR), dtype=np.uint8)
