"""Whether what an engine gave back can be a mouth. The last look before it is shown. Pure."""

from __future__ import annotations

import numpy as np

from engines.contract import EngineSpec, FacePatch
from engines.errors import EngineOutput

STEP_PX = 8
"""Every eighth pixel both ways is looked at: a patch that is flat there is flat."""


def check(patch: FacePatch, spec: EngineSpec) -> None:
    """Raise EngineOutput for a patch of the wrong shape or type, or of one colour: a network that has lost its way."""
    wanted = (spec.mouth_px, spec.mouth_px, 3)
    if patch.pixels.shape != wanted or patch.pixels.dtype != np.uint8:
        raise EngineOutput(spec.name, f"{patch.pixels.shape} {patch.pixels.dtype} in place of {wanted} uint8")
    seen = patch.pixels[::STEP_PX, ::STEP_PX]
    if (seen == seen[0, 0]).all():
        raise EngineOutput(spec.name, "a patch of one colour")
