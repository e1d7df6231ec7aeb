"""The five stages as one object: from a picture to its face, from keypoints to pixels. Knows no audio and no time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn

from engines.liveportrait import appearance, generator, motion, retargeting, warping
from engines.liveportrait.bound import BoundStage
from engines.liveportrait.dense_motion import DenseMotionSizes
from engines.liveportrait.drive import SourceFace
from engines.liveportrait.keypoints import MotionInfo, motion_info
from engines.liveportrait.openings import F32, lip_opening, wanted_eyes, wanted_lips
from engines.liveportrait.pixels import U8, to_pictures, to_tensor
from engines.liveportrait.seeded import seed
from engines.stage import StageContract

OPEN_LIPS = 0.03
"""From this opening on, a source's lips are closed before it is animated."""


@dataclass(frozen=True, slots=True)
class PortraitSizes:
    """Widths of all stages. The defaults are the published ones."""

    image_px: int = 256
    appearance: appearance.AppearanceSizes = field(default_factory=appearance.AppearanceSizes)
    motion: motion.MotionSizes = field(default_factory=motion.MotionSizes)
    warping: warping.WarpingSizes = field(default_factory=warping.WarpingSizes)
    generator: generator.GeneratorSizes = field(default_factory=generator.GeneratorSizes)

    @property
    def feature_px(self) -> int:
        """Side of the appearance volume."""
        return self.image_px >> self.appearance.num_down_blocks

    @property
    def picture_px(self) -> int:
        """Side of the rendered face."""
        return self.feature_px * 4 * self.generator.upscale

    def contracts(self) -> tuple[StageContract, ...]:
        """Every stage, in the order in which data meets them."""
        return (
            appearance.contract(self.appearance, self.image_px, self.image_px),
            motion.contract(self.motion, self.image_px, self.image_px),
            *(retargeting.contract(part) for part in retargeting.INPUTS),
            warping.contract(self.warping, self.feature_px, self.feature_px),
            generator.contract(self.generator, self.feature_px, self.feature_px),
        )


FULL = PortraitSizes()
REDUCED = PortraitSizes(
    image_px=32,
    appearance=appearance.AppearanceSizes(
        block_expansion=8, max_features=64, reshape_channel=16, reshape_depth=4, num_resblocks=2
    ),
    motion=motion.MotionSizes(depths=(1, 1, 2, 1), widths=(16, 32, 64, 128)),
    warping=warping.WarpingSizes(
        block_expansion=8, max_features=64, reshape_channel=16,
        dense_motion=DenseMotionSizes(
            block_expansion=8, max_features=64, num_blocks=3, reshape_depth=4, compress=2
        ),
    ),
    generator=generator.GeneratorSizes(block_expansion=8, max_features=64),
)  # fmt: skip
"""The same code with small widths: for tests, continuous integration and looking at the chain, not at faces."""


def networks(sizes: PortraitSizes) -> dict[str, nn.Module]:
    """Empty networks by stage name."""
    made: dict[str, nn.Module] = {
        "appearance": appearance.AppearanceExtractor(sizes.appearance),
        "motion": motion.MotionExtractor(sizes.motion),
        "warping": warping.Warping(sizes.warping),
        "generator": generator.SpadeGenerator(sizes.generator),
    }
    return made | {f"retarget_{part}": retargeting.Retargeting(part) for part in retargeting.INPUTS}


def seeded_networks(sizes: PortraitSizes) -> dict[str, nn.Module]:
    """Networks with made-up weights."""
    return {stage: seed(stage, network) for stage, network in networks(sizes).items()}


def one_thread() -> None:
    """Keep torch to one CPU thread: more of them spin, and starve whatever shares the machine."""
    torch.set_num_threads(1)


@dataclass(frozen=True, slots=True, eq=False)
class Portrait:
    """One avatar as the stages know it; the tensors stay on the device for all its frames."""

    feature_3d: Tensor
    face: SourceFace


class LivePortrait:
    """The bound stages. Not for two threads at once."""

    def __init__(self, sizes: PortraitSizes, stages: dict[str, nn.Module], device: str = "cpu") -> None:
        contracts = {contract.stage: contract for contract in sizes.contracts()}
        spade = stages["generator"]
        if isinstance(spade, generator.SpadeGenerator):
            spade.fold()
        self.sizes = sizes
        self._stages = {
            name: BoundStage(contract, stages[name], "cpu" if name.startswith("retarget_") else device)
            for name, contract in contracts.items()
        }

    def motion_of(self, face: U8) -> MotionInfo:
        """Pose and expression of a face (image_px, image_px, 3) u8 RGB, on the CPU."""
        heads = self._stages["motion"](image=to_tensor(face))
        return motion_info({name: value.float().cpu() for name, value in heads.items()})

    def prepare(self, face: U8, landmarks: F32, *, stitching: bool = True, close_lips: bool = True) -> Portrait:
        """Stages F and M of a source face (image_px, image_px, 3) u8 RGB with its landmarks (n, 2) in any scale."""
        info = self.motion_of(face)
        points = info.keypoints()
        resting = None
        if close_lips and float(lip_opening(landmarks)[0, 0]) >= OPEN_LIPS:
            resting = self.retarget("lip", points, wanted_lips(landmarks, 0.0))
        source = SourceFace(info, points, self.stitch if stitching else None, resting)
        return Portrait(self._stages["appearance"](image=to_tensor(face))["feature_3d"], source)

    def stitch(self, kp_source: Tensor, kp_driving: Tensor) -> Tensor:
        """Driving keypoints moved so that shoulders and background stay."""
        stage = self._stages["retarget_stitching"]
        return retargeting.stitched(lambda feature: stage(feature=feature)["delta"], kp_source, kp_driving)

    def retarget(self, part: str, kp_source: Tensor, ratios: F32) -> Tensor:
        """What to add to the keypoints for the wanted opening of `part`, "eye" or "lip"."""
        stage = self._stages[f"retarget_{part}"]
        return retargeting.retargeted(
            lambda feature: stage(feature=feature)["delta"], kp_source, torch.from_numpy(ratios)
        )

    def blink(self, portrait: Portrait, landmarks: F32, opening: float) -> Tensor:
        """What to add to the keypoints for eyes opened this far."""
        return self.retarget("eye", portrait.face.keypoints, wanted_eyes(landmarks, opening))

    def render(self, portraits: Portrait | Sequence[Portrait], kp_driving: Tensor) -> U8:
        """(B, picture_px, picture_px, 3) u8 RGB for keypoints (B, 21, 3) of one portrait, or of B.

        Raises EngineOutput if it is not finite.
        """
        batch = kp_driving.shape[0]
        if isinstance(portraits, Portrait):
            volumes = portraits.feature_3d.expand(batch, -1, -1, -1, -1)
            sources = portraits.face.keypoints.expand(batch, -1, -1)
        else:
            volumes = torch.cat([p.feature_3d for p in portraits])
            sources = torch.cat([p.face.keypoints for p in portraits])
        warped = self._stages["warping"](feature_3d=volumes, kp_driving=kp_driving, kp_source=sources)
        return to_pictures(self._stages["generator"](feature=warped["out"])["picture"])
