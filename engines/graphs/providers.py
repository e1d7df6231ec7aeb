"""What execution providers of ONNX Runtime cannot run, as rules over nodes. Measured with the versions in VERSIONS."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from engines.graphs.model import Graph, attributes

VERSIONS = "onnxruntime 1.32 (CPU), onnxruntime-web 1.30, onnxruntime-webgpu 1.27, TensorRT 10 and 11"
_POOLS = {"AveragePool", "MaxPool", "GlobalAveragePool", "GlobalMaxPool", "LpPool"}


@dataclass(frozen=True, slots=True)
class Rule:
    """One thing that a provider does not do with a node that it concerns."""

    provider: str
    op_type: str
    applies: Callable[[Graph, Any], bool]
    effect: str
    """What happens: an error, a silent move to the CPU, or, worst, a wrong result."""


@dataclass(frozen=True, slots=True)
class Obstacle:
    """A node that a provider does not run."""

    provider: str
    node: str
    op_type: str
    effect: str


def _rank(graph: Graph, node: Any) -> int:
    return graph.rank(node.input[0]) or 0


def _volume(graph: Graph, node: Any) -> bool:
    return _rank(graph, node) == 5


def _late_opset(graph: Graph, node: Any) -> bool:
    return graph.opset >= 20 and not _volume(graph, node)


def _grouped_volume(graph: Graph, node: Any) -> bool:
    return _volume(graph, node) and attributes(node).get("group", 1) != 1


def _two_tensors(graph: Graph, node: Any) -> bool:
    return len(node.input) > 1


RULES = (
    Rule("webgpu", "GridSample", _volume, "run fails (opset 16..19) or moves to the CPU (opset 20 and later)"),
    Rule("webgpu", "GridSample", _late_opset, "registered for opset 16..19 only: moves to the CPU"),
    Rule("webgpu", "Conv", _grouped_volume, "refused: groups over a volume"),
    Rule("webgpu", "Min", _two_tensors, "elementwise Min moves to the CPU in 1.27"),
    Rule("webgpu", "Max", _two_tensors, "elementwise Max moves to the CPU in 1.27"),
    Rule("webgpu-jsep", "GridSample", _volume, "run fails: only 4-D tensors"),
    Rule("webgpu-jsep", "GridSample", _late_opset, "registered for opset 16..19 only: moves to the CPU"),
    Rule("webgpu-jsep", "Conv", _grouped_volume, "silently wrong numbers"),
    *(Rule("webgpu-jsep", pool, _volume, "run fails: pooling over volumes in this layout") for pool in sorted(_POOLS)),
    Rule("tensorrt", "GridSample", _volume, "the native layer is 4-D only: needs a plug-in"),
)
PROVIDERS = tuple(dict.fromkeys(rule.provider for rule in RULES))


def obstacles(graph: Graph) -> list[Obstacle]:
    """Every node that some provider does not run as it is, provider by provider. The CPU provider runs them all."""
    found = []
    for provider in PROVIDERS:
        for node in graph.nodes:
            for rule in RULES:
                if rule.provider == provider and rule.op_type == node.op_type and rule.applies(graph, node):
                    name = node.name or (node.output[0] if node.output else "")
                    found.append(Obstacle(provider, name, node.op_type, rule.effect))
    return found
