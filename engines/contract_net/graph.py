"""The contract network's two stages as ONNX graphs, node by node: what backends are tried on without torch."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
from onnx import TensorProto, helper, numpy_helper

from engines.contract import TensorContract
from engines.contract_net.contracts import CONTRACTS
from engines.contract_net.network import DETAIL, MOUTH_MOVE, PATCH_PX, SCALE, SIDE, mouth_map
from engines.contract_net.weights import HEAD, WIDTH, weights
from engines.stage import StageContract

OPSET, IR_VERSION = 18, 10
_KINDS = {"float32": TensorProto.FLOAT, "uint8": TensorProto.UINT8}


class _Draft:
    """A graph being written."""

    def __init__(self) -> None:
        self.nodes: list[Any] = []
        self.constants: dict[str, Any] = {}

    def constant(self, name: str, value: npt.ArrayLike, dtype: npt.DTypeLike = np.float32) -> str:
        self.constants[name] = numpy_helper.from_array(np.asarray(value, dtype), name)
        return name

    def add(self, kind: str, *inputs: str, out: str | None = None, **attributes: Any) -> str:
        name = out or f"{kind.lower()}_{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, list(inputs), [name], name=name, **attributes))
        return name

    def conv(self, x: str, weight: str) -> str:
        return self.add("Conv", x, self.constant(weight, weights()[weight]), pads=[1, 1, 1, 1])

    def silu(self, x: str) -> str:
        return self.add("Mul", x, self.add("Sigmoid", x))

    def matmul(self, x: str, weight: str) -> str:
        return self.add("MatMul", x, self.constant(weight, weights()[weight]))

    def model(self, contract: StageContract) -> Any:
        graph = helper.make_graph(
            self.nodes, contract.stage, [_value(c) for c in contract.inputs], [_value(c) for c in contract.outputs],
            list(self.constants.values()),
        )  # fmt: skip
        opset = helper.make_opsetid("", OPSET)
        made = helper.make_model(graph, opset_imports=[opset], ir_version=IR_VERSION)
        onnx.checker.check_model(made)
        return made


def unet() -> Any:
    """latent, audio to denoised."""
    draft = _Draft()
    x = draft.silu(draft.conv("latent", "conv_in.weight"))
    keys = draft.matmul("audio", "audio.key.weight")
    values = draft.matmul("audio", "audio.value.weight")
    flat = draft.add("Reshape", x, draft.constant("flat", [0, WIDTH, SIDE * SIDE], np.int64))
    queries = draft.matmul(draft.add("Transpose", flat, perm=[0, 2, 1]), "query.weight")
    scores = draft.add("MatMul", queries, draft.add("Transpose", keys, perm=[0, 2, 1]))
    scores = draft.add("Mul", scores, draft.constant("temper", HEAD**-0.5))
    heard = draft.add("MatMul", draft.add("Softmax", scores, axis=-1), values)
    heard = draft.add("Transpose", heard, perm=[0, 2, 1])
    x = draft.add("Add", x, draft.add("Reshape", heard, draft.constant("square", [0, WIDTH, SIDE, SIDE], np.int64)))
    for pair in (0, 2):
        inner = draft.silu(draft.conv(x, f"block.{pair}.weight"))
        x = draft.add("Add", x, draft.conv(inner, f"block.{pair + 1}.weight"))
    moved = draft.add("Tanh", draft.conv(draft.silu(x), "conv_out.weight"))
    moved = draft.add("Mul", moved, draft.constant("reach", MOUTH_MOVE * SCALE * mouth_map()))
    bounds = [draft.constant(name, [value], np.int64) for name, value in (("from", 4), ("to", 8), ("axis", 1))]
    draft.add("Add", draft.add("Slice", "latent", *bounds), moved, out="denoised")
    return draft.model(CONTRACTS[1])


def decoder() -> Any:
    """denoised to faces."""
    draft = _Draft()
    x = draft.add("Mul", "denoised", draft.constant("unscale", 1.0 / SCALE))
    detail = draft.add("Tanh", draft.conv(draft.silu(draft.conv(x, "decoder.in.weight")), "decoder.out.weight"))
    detail = draft.add("Mul", detail, draft.constant("reach", DETAIL * mouth_map()))
    bounds = [draft.constant(name, [value], np.int64) for name, value in (("from", 0), ("to", 3), ("axis", 1))]
    small = draft.add("Add", draft.add("Slice", x, *bounds), detail)
    factor = PATCH_PX / SIDE
    scales = draft.constant("scales", [1.0, 1.0, factor, factor])
    large = draft.add(
        "Resize", small, "", scales, mode="linear", coordinate_transformation_mode="half_pixel"
    )  # fmt: skip
    half = draft.constant("half", 127.5)
    bytes_ = draft.add("Add", draft.add("Mul", large, half), half)
    bytes_ = draft.add("Clip", bytes_, draft.constant("black", 0.0), draft.constant("white", 255.0))
    rows = draft.add("Transpose", draft.add("Round", bytes_), perm=[0, 2, 3, 1])
    draft.add("Cast", rows, out="faces", to=TensorProto.UINT8)
    return draft.model(CONTRACTS[2])


def _value(contract: TensorContract) -> Any:
    return helper.make_tensor_value_info(contract.name, _KINDS[contract.dtype], list(contract.shape))
