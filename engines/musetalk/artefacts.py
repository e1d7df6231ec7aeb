"""Exported graphs in a folder: STAGE.PRECISION.onnx, and the word that each has passed its comparison with torch."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from engines.backends.plan_cache import PlanKey, graph_sha256
from engines.backends.tensorrt_api import RTX, TensorRt
from engines.errors import EngineContract, EngineUnavailable

GATES = {
    ("unet", "fp32"): 1e-5,
    ("unet", "fp16"): 5e-3,
    ("decoder", "fp32"): 1e-4,
    ("decoder", "fp16"): 1e-2,
    ("tiny", "fp32"): 1e-4,
    ("tiny", "fp16"): 1e-2,
}
"""Largest absolute error against torch in float32, on the stage's float output."""


@dataclass(frozen=True, slots=True)
class Proven:
    """A graph that passed its comparison and was not changed since."""

    path: Path
    sha256: str
    """Of the graph and its weights, as it was just read: gigabytes that nobody needs to read again."""


class Artefacts:
    """A folder of exported graphs."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def path(self, stage: str, precision: str) -> Path:
        return self.folder / f"{stage}.{precision}.onnx"

    def word(self, stage: str, precision: str) -> Path:
        """Where it is written that a graph has passed."""
        return self.folder / f"{stage}.{precision}.verified.json"

    def pass_(self, stage: str, precision: str, report: dict[str, object]) -> None:
        """Write down that the graph as it is now has passed."""
        digest = graph_sha256(self.path(stage, precision))
        text = json.dumps({"onnx_sha256": digest, **report}, indent=2)
        self.word(stage, precision).write_text(text + "\n", "utf-8")

    def verified(self, stage: str, precision: str) -> Proven:
        """A graph that passed and was not changed since. Reads all of it, once.

        Raises EngineUnavailable (none there), EngineContract.
        """
        path = self.path(stage, precision)
        if not path.is_file():
            export = f"`liveanchor engines export {stage} {path} --models DIR --precision {precision}`"
            remedy = f"Run `liveanchor engines build --models DIR`, or {export} where no plans are wanted."
            raise EngineUnavailable("musetalk", f"{path.name} is not in {self.folder}", remedy)
        try:
            said = json.loads(self.word(stage, precision).read_text("utf-8")).get("onnx_sha256")
        except (OSError, ValueError, AttributeError):
            said = None
        digest = graph_sha256(path)
        if said != digest:
            gate = GATES[stage, precision]
            expected = f"a graph that `liveanchor engines verify {path}` found within {gate:g} of torch"
            raise EngineContract(path.name, expected, "one that was changed since" if said else "one never verified")
        return Proven(path, digest)


def plan_key(stage: str, onnx_sha256: str, api: TensorRt, precision: str, buckets: tuple[int, ...]) -> PlanKey:
    """The key of a graph's plan on this machine. A plan of TensorRT-RTX runs on every card it was made for."""
    gpu = capability = "any"
    if api.backend != RTX:
        from engines.backends.cuda import Cuda

        device = Cuda().device()
        gpu, capability = device.name, device.compute_capability
    return PlanKey(stage, onnx_sha256, precision, api.backend, api.version, buckets, gpu, capability)
