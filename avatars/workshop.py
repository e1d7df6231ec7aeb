"""Turns source files into packets of a store: pictures and clips, new or changed ones only."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import av
import cv2
import numpy as np
import numpy.typing as npt
from safetensors.numpy import save_file

from avatars.bundled import bundled_at
from avatars.clip import write_clip, write_loop
from avatars.clipfile import ClipFile, is_clip
from avatars.errors import AvatarError, PortraitRejected
from avatars.faces import FaceMesh
from avatars.picture import fit_inside, load_picture
from avatars.precompile import FaceFinder, FaceSettings, IdleAnimator, Makers, SidecarBuilder, precompile_portrait
from avatars.reader import Inspected, open_packet
from avatars.sources import SIDECAR
from avatars.store import AvatarStore
from avatars.writer import ENGINE_PREFIX, write_info, write_still

U8 = npt.NDArray[np.uint8]
_SOURCE_FAULTS = (cv2.error, av.FFmpegError, ValueError, ArithmeticError, LookupError, MemoryError)
"""What libraries raise on sources nobody thought of: one that cannot be made must end neither server nor batch."""
_SAVE_AGAIN = "open it elsewhere and save it as PNG, JPEG or MP4"
MAKER_REVISION = 1
"""Raise it when the same source would give another packet: those made before are made again."""


@dataclass(frozen=True, slots=True)
class Made:
    """What became of one source."""

    avatar_id: str
    info: dict[str, Any]
    fresh: bool
    """False: the packet was up to date."""


@dataclass(frozen=True, slots=True)
class Recipe:
    """How sources become packets."""

    face: FaceSettings = field(default_factory=FaceSettings)
    materialise: bool = False
    """Real copies of a repeated frame, for consumers that draw in place."""
    again: bool = False
    """Make even what is up to date."""


class Workshop:
    """One thread's tools: a face finder and the engines' parts. Make one for each thread."""

    def __init__(
        self,
        store: AvatarStore,
        *,
        finder: FaceFinder | None = None,
        makers: Makers | None = None,
        builders: Sequence[SidecarBuilder] = (),
    ) -> None:
        self._store = store
        self._given_finder = finder
        self._makers = makers or Makers()
        self._builders = tuple(builders)

    def make(
        self,
        source: Path,
        avatar_id: str,
        recipe: Recipe | None = None,
        progress: Callable[[float], None] = lambda done: None,
    ) -> Made:
        """Make the packet of a source file unless it is up to date. Raises AvatarError."""
        recipe = recipe or Recipe()
        if self._makers.official_margin:
            recipe = replace(recipe, face=replace(recipe.face, official_margin=True))
        made_from = self._made_from(source, recipe)
        if not recipe.again:
            known = self._up_to_date(avatar_id, made_from)
            if known is not None:
                progress(1.0)
                return Made(avatar_id, known, fresh=False)
        with self._store.replacing(avatar_id) as folder:
            try:
                info = self._fill(source, avatar_id, recipe, folder, progress)
            except _SOURCE_FAULTS as error:
                raise PortraitRejected(source.name, f"it cannot be worked with ({error})", _SAVE_AGAIN) from error
            info |= {"made_from": made_from}
            self._add_sidecars(folder, avatar_id, info)
        progress(1.0)
        return Made(avatar_id, self._store.info(avatar_id), fresh=True)

    def _fill(
        self, source: Path, avatar_id: str, recipe: Recipe, folder: Path, progress: Callable[[float], None]
    ) -> dict[str, Any]:
        if is_clip(source):
            clip = ClipFile(source, recipe.face.max_width_px, recipe.face.max_height_px)
            info = write_clip(clip, folder, self._finder, recipe.face, self._makers, progress)
            return {"avatar_id": avatar_id, **info}
        rgb = load_picture(source, max_side_px=2 * max(recipe.face.max_width_px, recipe.face.max_height_px))
        if self._makers.idle is not None:
            return self._fill_loop(self._makers.idle, rgb, (source.name, avatar_id), recipe, folder, progress)
        packet = precompile_portrait(
            rgb,
            avatar_id,
            self._finder,
            source=source.name,
            settings=recipe.face,
            makers=self._makers,
        )
        progress(0.5)
        write_still(packet, folder, materialise=recipe.materialise)
        portrait = bundled_at(source)
        if portrait is not None and portrait.rects:
            save_file(portrait.sources(), folder / f"{ENGINE_PREFIX}{SIDECAR}.safetensors")
        return dict(packet.info)

    def _fill_loop(
        self,
        idle: IdleAnimator,
        rgb: U8,
        names: tuple[str, str],
        recipe: Recipe,
        folder: Path,
        progress: Callable[[float], None],
    ) -> dict[str, Any]:
        """A portrait that lives while it waits. `names`: of the source, of the avatar."""
        face = recipe.face
        loop = idle.animate(fit_inside(rgb, face.max_width_px, face.max_height_px), self._finder, names[0], face.face)
        # The face that moves is the one that was chosen; in the loop's frames it is followed from the first on.
        info = write_loop(loop, folder, self._finder, face, self._makers, progress)
        return {"avatar_id": names[1], **info, "idle": {"name": idle.name, "revision": idle.revision}}

    @property
    def _finder(self) -> FaceFinder:
        """Loaded on first use: looking whether packets are up to date needs no face models."""
        if self._given_finder is None:
            self._given_finder = FaceMesh()
        return self._given_finder

    def _add_sidecars(self, folder: Path, avatar_id: str, info: dict[str, Any]) -> None:
        if self._builders:
            write_info(folder, info)
            packet = open_packet(folder, avatar_id, Inspected())
            for builder in self._builders:
                save_file(dict(builder.build(packet)), folder / f"{ENGINE_PREFIX}{builder.name}.safetensors")
        write_info(folder, info)

    def _made_from(self, source: Path, recipe: Recipe) -> dict[str, Any]:
        """Everything that decides what a packet looks like."""
        encoder, parser, idle = self._makers.latents, self._makers.parser, self._makers.idle
        made_from: dict[str, Any] = {} if idle is None else {"idle": [idle.name, idle.revision]}
        portrait = bundled_at(source)
        if portrait is not None and portrait.rects:
            made_from |= {"sources_sha256": _sha256(portrait.sources_path)}
        return made_from | {
            "source_sha256": _sha256(source),
            "maker": MAKER_REVISION,
            "face": asdict(recipe.face),
            "materialised": recipe.materialise,
            "latent_encoder": None if encoder is None else [encoder.name, encoder.revision],
            "parser": parser is not None,
            "sidecars": {builder.name: builder.revision for builder in self._builders},
        }

    def _up_to_date(self, avatar_id: str, made_from: dict[str, Any]) -> dict[str, Any] | None:
        try:
            info = self._store.info(avatar_id)
            if not _covers(info.get("made_from"), made_from):
                return None
            self._store.open(avatar_id)
        except AvatarError:
            return None
        return info


def _covers(known: object, wanted: dict[str, Any]) -> bool:
    """A packet made for an engine that needs latents serves one that needs none."""
    if not isinstance(known, dict):
        return False
    face = known.get("face")
    if wanted["latent_encoder"] is None and known.get("latent_encoder") is not None and isinstance(face, dict):
        framed = wanted["face"] | {"official_margin": face.get("official_margin")}
        wanted = wanted | {"face": framed, "latent_encoder": known["latent_encoder"], "parser": known.get("parser")}
    return known == wanted


def _sha256(source: Path) -> str:
    try:
        with source.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except FileNotFoundError:
        raise PortraitRejected(source.name, "there is no such file", "check the path") from None
    except OSError as error:
        raise PortraitRejected(source.name, f"it cannot be read ({error.strerror})", "check the path") from None
