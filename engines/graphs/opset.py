"""Moves a graph to another opset without changing what it computes, or says why it cannot."""

from __future__ import annotations

from typing import Any

import onnx
from onnx import defs, version_converter

from engines.graphs.errors import GraphRefused
from engines.graphs.model import Graph, attributes, label

_CHANGED_DEFAULTS = {"Resize": {"antialias", "keep_aspect_ratio_policy", "axes"}}
_SAMPLE_MODES = {"linear": "bilinear", "cubic": "bicubic"}


def move(model: Any, target: int) -> Any:
    """The same model at opset `target`. Raises GraphRefused where a node means something else, or nothing, there."""
    current = Graph(model).opset
    if current == target:
        return model
    if current < target:
        try:
            return version_converter.convert_version(model, target)
        except RuntimeError as error:
            raise GraphRefused(f"opset {current}", f"cannot be raised to {target}: {error}") from error
    moved = onnx.ModelProto()
    moved.CopyFrom(model)
    for node in moved.graph.node:
        if node.domain in ("", "ai.onnx"):
            _lower(node, current, target)
    for entry in moved.opset_import:
        if entry.domain in ("", "ai.onnx"):
            entry.version = target
    return moved


def _lower(node: Any, current: int, target: int) -> None:
    """Check one node against the older definition; rename what only got another name since."""
    name = label(node)
    newer = _schema(node.op_type, current, name)
    older = _schema(node.op_type, target, name)
    if newer.since_version == older.since_version:
        return
    if node.op_type == "GridSample":
        for attribute in node.attribute:
            if attribute.name == "mode":
                word = attribute.s.decode()
                attribute.s = _SAMPLE_MODES.get(word, word).encode()
        if "mode" not in attributes(node):
            node.attribute.append(onnx.helper.make_attribute("mode", "bilinear"))
        return
    unknown = set(attributes(node)) - set(older.attributes)
    for attribute in list(node.attribute):
        default = newer.attributes[attribute.name].default_value if attribute.name in unknown else None
        if default is not None and default.SerializeToString() == attribute.SerializeToString():
            node.attribute.remove(attribute)
            unknown.discard(attribute.name)
    if node.op_type == "AveragePool" and "dilations" in unknown and set(attributes(node)["dilations"]) == {1}:
        node.attribute.remove(next(a for a in node.attribute if a.name == "dilations"))
        unknown.discard("dilations")
    if unknown:
        raise GraphRefused(name, f"{node.op_type} has {', '.join(sorted(unknown))}, which opset {target} does not know")
    if len(node.input) > older.max_input or len(node.output) > older.max_output:
        raise GraphRefused(name, f"{node.op_type} takes other inputs in opset {target}")


def _schema(op_type: str, opset: int, name: str) -> Any:
    try:
        return defs.get_schema(op_type, opset)
    except defs.SchemaError as error:
        raise GraphRefused(name, f"there is no {op_type} in opset {opset}") from error
