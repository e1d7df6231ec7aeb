"""Stage S: three small networks that move keypoints: shoulders stay put, eyes and lips reach a wanted opening."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import torch
from torch import Tensor, nn

from engines.contract import TensorContract
from engines.stage import StageContract

NUM_KP = 21
_KP_VALUES = 3 * NUM_KP
HIDDEN = {"stitching": (128, 128, 64), "eye": (256, 256, 128, 128, 64), "lip": (128, 128, 64)}
INPUTS = {"stitching": 2 * _KP_VALUES, "eye": _KP_VALUES + 3, "lip": _KP_VALUES + 2}
OUTPUTS = {"stitching": _KP_VALUES + 2, "eye": _KP_VALUES, "lip": _KP_VALUES}
CHECKPOINT_PARTS = {"stitching": "retarget_shoulder", "eye": "retarget_eye", "lip": "retarget_mouth"}
"""Names of the three sub-dictionaries in the published checkpoint."""
Perceptron = Callable[[Tensor], Tensor]
"""A Retargeting network, bound or bare."""


class Retargeting(nn.Module):
    """A multilayer perceptron over flattened keypoints; `part` is stitching, eye or lip."""

    def __init__(self, part: str) -> None:
        super().__init__()
        widths = (INPUTS[part], *HIDDEN[part], OUTPUTS[part])
        layers: list[nn.Module] = []
        for a, b in pairwise(widths):
            layers += [nn.Linear(a, b), nn.ReLU()]
        self.mlp = nn.Sequential(*layers[:-1])

    def forward(self, feature: Tensor) -> Tensor:
        """(B, inputs) f32 → (B, outputs) f32."""
        delta: Tensor = self.mlp(feature)
        return delta


def stitched(network: Perceptron, kp_source: Tensor, kp_driving: Tensor) -> Tensor:
    """Driving keypoints (B, 21, 3) moved so that the rest of the picture stays where it is."""
    delta = network(torch.cat([kp_source.flatten(1), kp_driving.flatten(1)], 1))
    moved = kp_driving + delta[:, :_KP_VALUES].view(-1, NUM_KP, 3)
    shift = torch.cat([delta[:, _KP_VALUES:], torch.zeros_like(delta[:, :1])], 1)
    return moved + shift[:, None]


def retargeted(network: Perceptron, kp_source: Tensor, ratios: Tensor) -> Tensor:
    """What to add to the keypoints, (B, 21, 3), for openings `ratios`: source's own, then the wanted one."""
    return network(torch.cat([kp_source.flatten(1), ratios], 1)).view(-1, NUM_KP, 3)


def contract(part: str) -> StageContract:
    """The perceptron of one part."""
    meaning = {
        "stitching": "batch, source keypoints then driving keypoints",
        "eye": "batch, source keypoints, left and right opening, wanted opening",
        "lip": "batch, source keypoints, opening, wanted opening",
    }[part]
    extra = ", then x and y of the whole" if part == "stitching" else ""
    return StageContract(
        f"retarget_{part}",
        (TensorContract("feature", ("B", INPUTS[part]), "float32", meaning, "any", "caller; on the CPU"),),
        (
            TensorContract(
                "delta", ("B", OUTPUTS[part]), "float32", f"batch, shift of keypoints x y z{extra}", "any",
                "retargeting; on the CPU",
            ),
        ),
    )  # fmt: skip
