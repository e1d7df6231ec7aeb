"""Whether a graph takes and gives what a stage's contract says, before anything runs."""

from __future__ import annotations

from engines.contract import TensorContract
from engines.errors import EngineContract
from engines.graphs.model import Graph
from engines.stage import StageContract


def bind(contract: StageContract, graph: Graph) -> None:
    """Compare by name. A free axis may have any size, or stay open. Raises EngineContract."""
    for kind, contracts, names in (
        ("input", contract.inputs, graph.inputs()),
        ("output", contract.outputs, graph.outputs()),
    ):
        expected = {c.name for c in contracts}
        for name in names:
            if name not in expected:
                raise EngineContract(
                    f"{contract.stage}.{name}", f"{kind}s {', '.join(sorted(expected))}", "an unknown name"
                )
        for tensor in contracts:
            if tensor.name not in names:
                raise EngineContract(f"{contract.stage}.{tensor.name}", f"an {kind} of this name", "nothing")
            _compare(contract.stage, tensor, graph)


def _compare(stage: str, tensor: TensorContract, graph: Graph) -> None:
    shape, dtype = graph.shape(tensor.name), graph.dtype(tensor.name)
    expected = f"({', '.join(map(str, tensor.shape))}) {tensor.dtype} [{tensor.axes}]"
    fits = (
        shape is not None
        and dtype == tensor.dtype
        and len(shape) == len(tensor.shape)
        and all(isinstance(want, str) or want == size for want, size in zip(tensor.shape, shape, strict=True))
    )
    if not fits:
        raise EngineContract(f"{stage}.{tensor.name}", expected, f"{shape} {dtype}")
