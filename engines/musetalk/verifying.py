"""Whether an exported graph computes what torch does: fixed inputs, several batch sizes, one gate."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from engines.backends.onnx_chain import OnnxStage
from engines.errors import EngineContract, EngineUnavailable
from engines.graphs.verify import Difference, difference
from engines.musetalk.artefacts import GATES, Artefacts
from engines.musetalk.export import PROBES, STAGES, contract_of, drawn_inputs, label_of, stage_network
from engines.musetalk.stages import Networks

BATCHES = (1, 3, 8)
GATED = {"unet": "denoised", "decoder": "picture", "tiny": "picture"}
Arrays = dict[str, "np.typing.NDArray[Any]"]


@dataclass(frozen=True, slots=True)
class Row:
    """One output at one batch size."""

    batch: int
    output: str
    largest: float
    """Largest absolute value of the reference."""
    difference: Difference


@dataclass(frozen=True, slots=True)
class Finding:
    """The comparison of one graph with torch in float32."""

    stage: str
    precision: str
    gate: float
    rows: tuple[Row, ...]

    @property
    def passed(self) -> bool:
        gated = [row for row in self.rows if row.output == GATED[self.stage]]
        return bool(gated) and all(row.difference.max <= self.gate for row in gated)

    def as_json(self) -> dict[str, Any]:
        """Plain values for `--json`."""
        rows = [
            {"batch": r.batch, "output": r.output, "largest": r.largest, **r.difference.as_json()} for r in self.rows
        ]
        return {
            "stage": self.stage, "precision": self.precision, "passed": self.passed,
            "gate": {"output": GATED[self.stage], "max": self.gate}, "rows": rows,
        }  # fmt: skip

    def lines(self) -> Iterator[str]:
        """The comparison as text."""
        yield f"{self.stage} {self.precision} against torch float32"
        yield f"{'batch':>5}  {'output':<9} {'largest':>9} {'max':>9} {'mean':>9} {'p99.9':>9}"
        for r in self.rows:
            d = r.difference
            yield f"{r.batch:5d}  {r.output:<9} {r.largest:9.3g} {d.max:9.2e} {d.mean:9.2e} {d.p99_9:9.2e}"
        verdict = "passes" if self.passed else "FAILS"
        yield f"{verdict} the gate: {GATED[self.stage]} max <= {self.gate:g}"


def verify(path: Path, nets: Networks, batches: Sequence[int] = BATCHES, threads: int = 1) -> Finding:
    """Compare, and write down a pass beside the graph. Raises EngineContract, EngineUnavailable (not one of ours).

    nets: float32, and not usable for anything else afterwards.
    """
    label = label_of(path)
    stage, precision = label.get("stage", ""), label.get("precision", "")
    if stage not in STAGES or (stage, precision) not in GATES:
        raise EngineUnavailable("musetalk", f"{path.name} was not made by `liveanchor engines export`", "Export it.")
    contract = contract_of(stage)
    inputs = drawn_inputs(stage, max(batches), seed=1)
    names = [*(c.name for c in contract.outputs), *PROBES[stage]]
    with torch.inference_mode():
        found = stage_network(stage, nets)(*inputs)
    wanted: Arrays = dict(
        zip(names, [t.numpy() for t in (found if isinstance(found, tuple) else (found,))], strict=True)
    )
    given: Arrays = dict(zip([c.name for c in contract.inputs], [t.numpy() for t in inputs], strict=True))
    graph = OnnxStage(contract, path, ["CPUExecutionProvider"], threads=threads, extra=PROBES[stage])
    rows = tuple(row for batch in batches for row in _compared(graph, given, wanted, batch))
    finding = Finding(stage, precision, GATES[stage, precision], rows)
    artefacts = Artefacts(path.parent)
    if finding.passed and artefacts.path(stage, precision) == path:
        artefacts.pass_(stage, precision, finding.as_json())
    return finding


def demand(finding: Finding) -> None:
    """Raises EngineContract where a graph did not pass."""
    if not finding.passed:
        worst = max(row.difference.max for row in finding.rows if row.output == GATED[finding.stage])
        raise EngineContract(
            f"{finding.stage} {finding.precision}", f"within {finding.gate:g} of torch", f"{worst:.3g}"
        )


def _compared(graph: OnnxStage, given: Arrays, wanted: Arrays, batch: int) -> Iterator[Row]:
    found = graph.run({name: array[:batch] for name, array in given.items()})
    for name, array in found.items():
        reference = wanted[name][:batch]
        yield Row(batch, name, float(np.abs(reference.astype(np.float64)).max()), difference([reference], [array]))
