"""A stage's tensors as a promise: checked at bind against a network or graph, at every call against the data."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np

from engines.contract import TensorContract
from engines.errors import EngineContract

_NUMBER = r"-?\d+(?:\.\d+)?"
_RANGE = re.compile(rf"^\s*({_NUMBER})\.\.({_NUMBER})")
_RANGE_SLACK = 1e-4
"""Rounding may carry a value this far over the edge of its declared range."""


class TensorLike(Protocol):
    """What numpy arrays and torch tensors have in common."""

    @property
    def shape(self) -> Any: ...

    @property
    def dtype(self) -> Any: ...


@dataclass(frozen=True, slots=True)
class StageContract:
    """One stage: what goes in, what comes out. Names, not positions, say which tensor is which."""

    stage: str
    inputs: tuple[TensorContract, ...]
    outputs: tuple[TensorContract, ...]

    def check_inputs(self, tensors: Mapping[str, TensorLike]) -> dict[str, int]:
        """Sizes of the free axes. Raises EngineContract on a missing, unknown or misshapen tensor."""
        return check(self.stage, self.inputs, tensors, {})

    def check_outputs(self, tensors: Mapping[str, TensorLike], axes: Mapping[str, int]) -> dict[str, int]:
        """Like `check_inputs`; free axes that the inputs fixed must have the same sizes."""
        return check(self.stage, self.outputs, tensors, axes)

    def with_dtype(self, dtype: str) -> StageContract:
        """The same stage with its float32 tensors in another float type: a mixed-precision boundary."""
        return replace(self, inputs=_retyped(self.inputs, dtype), outputs=_retyped(self.outputs, dtype))


def check(
    stage: str, contracts: Sequence[TensorContract], tensors: Mapping[str, TensorLike], axes: Mapping[str, int]
) -> dict[str, int]:
    """Compare tensors with their contracts by name; free axes of one name have one size. Raises EngineContract."""
    expected = {contract.name for contract in contracts}
    for name in tensors:
        if name not in expected:
            raise EngineContract(f"{stage}.{name}", f"one of {', '.join(sorted(expected))}", "an unknown name")
    sizes = dict(axes)
    for contract in contracts:
        tensor = tensors.get(contract.name)
        if tensor is None:
            raise EngineContract(f"{stage}.{contract.name}", _described(contract), "nothing")
        _check_one(stage, contract, tensor, sizes)
    return sizes


def check_values(stage: str, contracts: Iterable[TensorContract], arrays: Mapping[str, Any]) -> None:
    """Every value finite and inside the declared range, where that is written as `low..high`. Raises EngineContract."""
    for contract in contracts:
        array = np.asarray(arrays[contract.name])
        name = f"{stage}.{contract.name}"
        if not np.isfinite(array).all():
            raise EngineContract(name, "finite values", f"{int((~np.isfinite(array)).sum())} that are not")
        bounds = _RANGE.match(contract.value_range)
        if bounds is None or array.size == 0:
            continue
        low, high = float(bounds[1]), float(bounds[2])
        found = float(array.min()), float(array.max())
        if found[0] < low - _RANGE_SLACK or found[1] > high + _RANGE_SLACK:
            raise EngineContract(name, contract.value_range, f"{found[0]:.4g}..{found[1]:.4g}")


def _check_one(stage: str, contract: TensorContract, tensor: TensorLike, sizes: dict[str, int]) -> None:
    name = f"{stage}.{contract.name}"
    shape = tuple(int(size) for size in tensor.shape)
    found = f"{shape} {dtype_name(tensor)}"
    if len(shape) != len(contract.shape) or dtype_name(tensor) != contract.dtype:
        raise EngineContract(name, _described(contract), found)
    for wanted, size in zip(contract.shape, shape, strict=True):
        if isinstance(wanted, str):
            wanted_size = sizes.setdefault(wanted, size)
            if wanted_size != size:
                raise EngineContract(name, f"{_described(contract)} with {wanted} = {wanted_size}", found)
        elif wanted != size:
            raise EngineContract(name, _described(contract), found)


def dtype_name(tensor: TensorLike) -> str:
    """ "float32" for numpy and torch alike."""
    return str(tensor.dtype).removeprefix("torch.")


def _described(contract: TensorContract) -> str:
    return f"({', '.join(str(size) for size in contract.shape)}) {contract.dtype} [{contract.axes}]"


def _retyped(contracts: tuple[TensorContract, ...], dtype: str) -> tuple[TensorContract, ...]:
    return tuple(replace(c, dtype=dtype) if c.dtype == "float32" else c for c in contracts)
