"""Stages by ONNX Runtime: on the CPU everywhere, on CUDA or TensorRT-RTX where its provider is there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import numpy as np

from engines.backends.chain import Array, Flow, Resident, Row, bucket_for, padded
from engines.backends.runtime import binding, onnxruntime
from engines.contract import TensorContract
from engines.errors import EngineContract, EngineUnavailable
from engines.stage import StageContract

PROVIDERS = ("NvTensorRTRTXExecutionProvider", "CUDAExecutionProvider", "CPUExecutionProvider")
"""In order of preference; those that are not there are passed over."""
_LOG_ERRORS_ONLY = 3
_TYPES = {"tensor(float)": "float32", "tensor(float16)": "float16", "tensor(uint8)": "uint8"}
_RUNTIME_ERRORS = (
    binding.Fail, binding.InvalidArgument, binding.InvalidGraph, binding.InvalidProtobuf, binding.NoSuchFile,
    binding.NotImplemented, binding.RuntimeException, RuntimeError, ValueError,
)  # fmt: skip


class OnnxStage:
    """One graph under its contract, weights left in their file."""

    def __init__(
        self,
        contract: StageContract,
        path: Path,
        providers: Sequence[str],
        *,
        threads: int = 1,
        extra: Sequence[str] = (),
    ) -> None:
        """extra: outputs beside the contract's to compute. Raises EngineUnavailable, EngineContract."""
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
        options.log_severity_level = _LOG_ERRORS_ONLY
        try:
            self._session = onnxruntime.InferenceSession(str(path), options, providers=list(providers))
        except _RUNTIME_ERRORS as error:
            raise EngineUnavailable(path.name, str(error).split("\n", 1)[0], "Export it again.") from error
        self.contract = contract
        self._wanted = [*(c.name for c in contract.outputs), *extra]
        self._types = {v.name: _TYPES.get(v.type, v.type) for v in self._session.get_inputs()}
        for kind, contracts, values in (
            ("input", contract.inputs, self._session.get_inputs()),
            ("output", contract.outputs, self._session.get_outputs()),
        ):
            _compare(contract.stage, kind, contracts, values)

    def run(self, tensors: Mapping[str, Array]) -> dict[str, Array]:
        """Outputs by name, floats as float32. Raises EngineContract."""
        given = {name: tensors[name].astype(dtype, copy=False) for name, dtype in self._types.items()}
        try:
            found = self._session.run(self._wanted, given)
        except _RUNTIME_ERRORS as error:
            raise EngineContract(self.contract.stage, "inputs that fit", str(error).split("\n", 1)[0]) from error
        arrays = {name: np.asarray(value) for name, value in zip(self._wanted, found, strict=True)}
        return {name: a.astype(np.float32) if a.dtype == np.float16 else a for name, a in arrays.items()}


class HostRows:
    """Implements chain.Resident: rows in this process's memory."""

    def __init__(self, rows: Array) -> None:
        self.rows = rows
        self.nbytes = rows.nbytes

    def free(self) -> None:
        """The collector's work."""


class OnnxChain:
    """Implements chain.Chain."""

    def __init__(
        self,
        stages: Sequence[tuple[StageContract, Path]],
        buckets: tuple[int, ...],
        providers: Sequence[str] | None = None,
    ) -> None:
        """Raises EngineUnavailable, EngineContract."""
        at_hand = onnxruntime.get_available_providers()
        chosen = [p for p in providers or PROVIDERS if p in at_hand]
        self.buckets = buckets
        self._flow = Flow(tuple(contract for contract, _ in stages))
        self._stages = [OnnxStage(contract, path, chosen) for contract, path in stages]

    def upload(self, rows: Array) -> Resident:
        return HostRows(rows)

    def run(self, resident: Mapping[str, Sequence[Row]], given: Mapping[str, Array]) -> dict[str, Array]:
        count = self._flow.count(resident, given)
        bucket = bucket_for(count, self.buckets)
        tensors: dict[str, Array] = dict(given)
        for name, rows in resident.items():
            tensors[name] = np.stack([cast(HostRows, row.resident).rows[row.index] for row in rows])
        tensors = {name: padded(array, bucket) for name, array in tensors.items()}
        for stage in self._stages:
            tensors |= stage.run(tensors)
        return {name: tensors[name][:count] for name in self._flow.outputs}

    def close(self) -> None:
        self._stages.clear()


def _compare(stage: str, kind: str, contracts: Sequence[TensorContract], values: Sequence[Any]) -> None:
    """Names, ranks, sizes; float16 may stand for float32, and there may be outputs more. Raises EngineContract."""
    found = {v.name: (tuple(v.shape), _TYPES.get(v.type, v.type)) for v in values}
    for name in found.keys() - {c.name for c in contracts} if kind == "input" else ():
        raise EngineContract(f"{stage}.{name}", f"{kind}s {', '.join(c.name for c in contracts)}", "an unknown name")
    for contract in contracts:
        expected = f"({', '.join(map(str, contract.shape))}) {contract.dtype} [{contract.axes}]"
        shape, dtype = found.get(contract.name, ((), "nothing"))
        fits = len(shape) == len(contract.shape) and dtype in _allowed(contract.dtype)
        sizes = zip(contract.shape, shape, strict=False)
        if not fits or any(isinstance(want, int) and want != size for want, size in sizes):
            raise EngineContract(f"{stage}.{contract.name}", expected, f"{shape} {dtype}")


def _allowed(dtype: str) -> tuple[str, ...]:
    return ("float32", "float16") if dtype == "float32" else (dtype,)
