"""What is in an ONNX graph, before anybody changes it: kinds of nodes, ranks, volumes, and who cannot run what."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from engines.graphs.model import Graph, Shape, attributes, label
from engines.graphs.providers import VERSIONS, Obstacle, obstacles

VOLUME_RANK = 5
_SPATIAL = ("Conv", "ConvTranspose", "GridSample", "AveragePool", "MaxPool", "Resize", "InstanceNormalization")


@dataclass(frozen=True, slots=True)
class VolumeNode:
    """A node that works on a tensor of rank 5."""

    name: str
    op_type: str
    inputs: tuple[Shape | None, ...]
    outputs: tuple[Shape | None, ...]
    attributes: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Audit:
    """The whole finding."""

    opset: int
    nodes: int
    histogram: Counter[str]
    ranks: Counter[int]
    """How many computed tensors have this rank; -1: unknown."""
    parameters: int
    inputs: dict[str, tuple[Shape | None, str | None]]
    outputs: dict[str, tuple[Shape | None, str | None]]
    volumes: tuple[VolumeNode, ...]
    obstacles: tuple[Obstacle, ...]
    unnamed: int
    """Nodes without a name of their own."""
    inner_nodes: int
    """Nodes of branches, loops and functions, which nobody looked into."""

    def volume_counts(self) -> Counter[str]:
        """How many nodes of each kind work on volumes."""
        return Counter(node.op_type for node in self.volumes)

    def as_json(self) -> dict[str, Any]:
        """Plain values for `--json`."""
        return {
            "opset": self.opset,
            "nodes": self.nodes,
            "inner_nodes": self.inner_nodes,
            "histogram": dict(self.histogram.most_common()),
            "ranks": {str(rank): count for rank, count in sorted(self.ranks.items())},
            "parameters": self.parameters,
            "inputs": {name: _tensor(found) for name, found in self.inputs.items()},
            "outputs": {name: _tensor(found) for name, found in self.outputs.items()},
            "rank5": dict(self.volume_counts().most_common()),
            "rank5_nodes": [
                {"name": n.name, "op": n.op_type, "in": n.inputs, "out": n.outputs, "attributes": n.attributes}
                for n in self.volumes
            ],
            "obstacles": [
                {"provider": o.provider, "node": o.node, "op": o.op_type, "effect": o.effect} for o in self.obstacles
            ],
            "rules_measured_with": VERSIONS,
        }

    def lines(self) -> Iterator[str]:
        """The finding as text."""
        yield f"{self.nodes} nodes, opset {self.opset}, {self.parameters:,} parameters"
        for word, found in (("in ", self.inputs), ("out", self.outputs)):
            for name, (shape, dtype) in found.items():
                yield f"  {word} {name} {_text(shape)} {dtype}"
        yield "nodes by kind: " + ", ".join(f"{kind} {count}" for kind, count in self.histogram.most_common())
        yield "tensors by rank: " + ", ".join(f"{rank}: {count}" for rank, count in sorted(self.ranks.items()))
        counts = self.volume_counts()
        yield "rank 5: " + (", ".join(f"{kind} {count}" for kind, count in counts.most_common()) or "none")
        for node in self.volumes:
            if node.op_type in _SPATIAL:
                shapes = ", ".join(_text(shape) for shape in node.inputs[:2])
                more = _telling(node.attributes)
                yield f"  {node.op_type:<12} {node.name}: {shapes} → {_text(node.outputs[0])}{more}"
        if self.inner_nodes:
            yield f"not looked into: {self.inner_nodes} nodes of branches, loops and functions"
        yield f"what providers cannot run ({VERSIONS}):"
        if not self.obstacles:
            yield "  nothing"
        for obstacle in self.obstacles:
            yield f"  {obstacle.provider:<12} {obstacle.op_type} {obstacle.node}: {obstacle.effect}"


def audit(graph: Graph) -> Audit:
    """Look at every node. Changes nothing."""
    ranks: Counter[int] = Counter()
    volumes = []
    for node in graph.nodes:
        outputs = [name for name in node.output if name]
        for name in outputs:
            rank = graph.rank(name)
            ranks[-1 if rank is None else rank] += 1
        data = [node.input[0]] if node.input and node.input[0] else []
        if any(graph.rank(name) == VOLUME_RANK for name in data + outputs):
            volumes.append(
                VolumeNode(
                    label(node), node.op_type,
                    tuple(graph.shape(name) for name in node.input if name),
                    tuple(graph.shape(name) for name in outputs), attributes(node),
                )
            )  # fmt: skip
    parameters = sum(_size(tensor.dims) for tensor in graph.model.graph.initializer)
    return Audit(
        opset=graph.opset,
        nodes=len(graph.nodes),
        histogram=graph.histogram(),
        ranks=ranks,
        parameters=parameters,
        inputs={name: (graph.shape(name), graph.dtype(name)) for name in graph.inputs()},
        outputs={name: (graph.shape(name), graph.dtype(name)) for name in graph.outputs()},
        volumes=tuple(volumes),
        obstacles=tuple(obstacles(graph)),
        unnamed=sum(not node.name for node in graph.nodes),
        inner_nodes=sum(1 for _ in graph.inner_nodes()),
    )


def _size(dims: Any) -> int:
    size = 1
    for dim in dims:
        size *= int(dim)
    return size


def _text(shape: Shape | None) -> str:
    return "(?)" if shape is None else "(" + ", ".join("?" if s is None else str(s) for s in shape) + ")"


def _telling(attributes: dict[str, Any]) -> str:
    """Attributes that say something; those at rest (all zero, all one) are left out."""
    always = ("align_corners", "padding_mode", "mode", "kernel_shape")
    words = []
    for key, value in attributes.items():
        values = value if isinstance(value, list | tuple) else [value]
        plain = all(v in (0, 1, 0.0, "NOTSET", "") for v in values)
        if key in always or not plain:
            shown = "x".join(map(str, values)) if isinstance(value, list | tuple) else value
            words.append(f"{key}={shown}")
    return " " + " ".join(words) if words else ""


def _tensor(found: tuple[Shape | None, str | None]) -> dict[str, Any]:
    return {"shape": found[0], "dtype": found[1]}
