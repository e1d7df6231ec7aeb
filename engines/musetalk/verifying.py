"""Whether an exported graph computes what torch does: fixed inputs, several batch sizes, one gate."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from engines.backends.onnx_chain import OnnxStage
from engines.errors import EngineUnavailable
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
        return bool(self._gated) and all(difference.max <= self.gate for difference in self._gated)

    @property
    def _gated(self) -> list[Difference]:
        return [row.difference for row in self.rows if row.output == GATED[self.stage]]

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
        if not self.passed and all(difference.mean <= self.gate for difference in self._gated):
            yield "only single values miss it; trained weights may: see `--gate` in docs/musetalk.md"


@dataclass(frozen=True, slots=True)
class Demand:
    """How a graph is compared."""

    batches: tuple[int, ...] = BATCHES
    """Batch sizes; only a graph that passed at all of the usual ones is written down as proven."""
    gate: float | None = None
    """Largest error allowed where it is not that of made-up weights."""
    threads: int = 1


def verify(path: Path, open_networks: Callable[[str], Networks], demand: Demand | None = None) -> Finding:
    """Compare, and write down a pass beside the graph. Raises EngineContract, EngineUnavailable (not one of ours).

    open_networks: gives the float32 networks that a stage needs. They are let go of before the graph is loaded, so
    that both are never in memory together.
    """
    demand = demand or Demand()
    label = label_of(path)
    stage, precision = label.get("stage", ""), label.get("precision", "")
    if stage not in STAGES or (stage, precision) not in GATES:
        raise EngineUnavailable("musetalk", f"{path.name} was not made by `liveanchor engines export`", "Export it.")
    contract = contract_of(stage)
    inputs = drawn_inputs(stage, max(demand.batches), seed=1)
    names = [*(c.name for c in contract.outputs), *PROBES[stage]]
    with torch.inference_mode():
        found = stage_network(stage, open_networks(stage))(*inputs)
    wanted: Arrays = dict(
        zip(names, [t.numpy() for t in (found if isinstance(found, tuple) else (found,))], strict=True)
    )
    given: Arrays = dict(zip([c.name for c in contract.inputs], [t.numpy() for t in inputs], strict=True))
    graph = OnnxStage(contract, path, ["CPUExecutionProvider"], threads=demand.threads, extra=PROBES[stage])
    rows = tuple(row for batch in demand.batches for row in _compared(graph, given, wanted, batch))
    gate = GATES[stage, precision] if demand.gate is None else demand.gate
    finding = Finding(stage, precision, gate, rows)
    artefacts = Artefacts(path.parent)
    if finding.passed and set(demand.batches) >= set(BATCHES) and artefacts.path(stage, precision) == path:
        artefacts.pass_(stage, precision, finding.as_json())
    return finding


def _compared(graph: OnnxStage, given: Arrays, wanted: Arrays, batch: int) -> Iterator[Row]:
    found = graph.run({name: array[:batch] for name, array in given.items()})
    for name, array in found.items():
        reference = wanted[name][:batch]
        yield Row(batch, name, float(np.abs(reference.astype(np.float64)).max()), difference([reference], [array]))
