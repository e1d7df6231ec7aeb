"""Stages by torch: the reference, on a CPU or on CUDA, where each bucket's work is recorded once and replayed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

import torch
from torch import Tensor, nn

from engines.backends.chain import Array, Flow, Resident, Row, bucket_for
from engines.errors import EngineContract, EngineUnavailable
from engines.stage import StageContract

_WARM_UPS = 3
"""Runs before a recording: libraries choose their kernels in them."""


class TorchRows:
    """Implements chain.Resident."""

    def __init__(self, rows: Tensor) -> None:
        self.rows: Tensor | None = rows
        self.nbytes = rows.numel() * rows.element_size()

    def free(self) -> None:
        self.rows = None


class _Recording:
    """One bucket's CUDA graph with the tensors it reads and writes."""

    def __init__(self, inputs: dict[str, Tensor], outputs: dict[str, Tensor], graph: torch.cuda.CUDAGraph) -> None:
        self.inputs = inputs
        self.outputs = outputs
        self.graph = graph


class TorchChain:
    """Implements chain.Chain. `networks` take and give tensors in the order of their contracts."""

    def __init__(
        self,
        stages: Sequence[tuple[StageContract, nn.Module]],
        buckets: tuple[int, ...],
        device: str = "cpu",
        dtype: torch.dtype = torch.float32,
    ) -> None:
        """Raises EngineUnavailable where torch has no such device."""
        try:
            torch.zeros(1, device=device)
        except (RuntimeError, AssertionError) as error:
            reason = f"torch has no device {device!r} here"
            raise EngineUnavailable("torch", reason, "Take --device cpu, or torch with its driver.") from error
        self.buckets = buckets
        self._device = torch.device(device)
        self._dtype = dtype
        self._flow = Flow(tuple(contract for contract, _ in stages))
        self._stages = [(contract, network.eval().to(self._device, dtype)) for contract, network in stages]
        self._recordings: dict[int, _Recording] = {}
        self._pool: Any = None

    def upload(self, rows: Array) -> Resident:
        return TorchRows(torch.from_numpy(rows.copy()).to(self._device, self._dtype))

    def run(self, resident: Mapping[str, Sequence[Row]], given: Mapping[str, Array]) -> dict[str, Array]:
        count = self._flow.count(resident, given)
        bucket = bucket_for(count, self.buckets)
        with torch.inference_mode():
            tensors = {name: _gathered(rows) for name, rows in resident.items()}
            tensors |= {n: torch.from_numpy(a).to(self._device, self._dtype) for n, a in given.items()}
            for stage in self._stages:
                _check(stage[0], tensors, self._dtype)
            tensors = {name: _padded(tensor, bucket) for name, tensor in tensors.items()}
            outputs = self._replayed(bucket, tensors) if self._device.type == "cuda" else self._forward(tensors)
            return {name: outputs[name][:count].cpu().numpy() for name in self._flow.outputs}

    def close(self) -> None:
        self._recordings.clear()
        self._stages.clear()

    def _forward(self, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
        tensors = dict(tensors)
        for contract, network in self._stages:
            found = network(*(tensors[c.name] for c in contract.inputs))
            outputs = found if isinstance(found, tuple) else (found,)
            tensors |= {c.name: value for c, value in zip(contract.outputs, outputs, strict=True)}
        return tensors

    def _replayed(self, bucket: int, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
        recording = self._recordings.get(bucket)
        if recording is None:
            recording = self._recordings[bucket] = self._record(tensors)
        for name, tensor in tensors.items():
            recording.inputs[name].copy_(tensor)
        recording.graph.replay()
        return recording.outputs

    def _record(self, tensors: dict[str, Tensor]) -> _Recording:
        inputs = {name: tensor.clone() for name, tensor in tensors.items()}
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(_WARM_UPS):
                self._forward(inputs)
        torch.cuda.current_stream().wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        # Recordings share what they need while they run: one runs at a time, its outputs are its own. Other threads may
        # allocate meanwhile, such as one that prepares an avatar: only this thread's own calls would spoil a recording.
        self._pool = self._pool or torch.cuda.graph_pool_handle()
        with torch.cuda.graph(graph, pool=self._pool, capture_error_mode="thread_local"):
            outputs = self._forward(inputs)
        return _Recording(inputs, outputs, graph)


def _gathered(rows: Sequence[Row]) -> Tensor:
    found = []
    for row in rows:
        tensor = cast(TorchRows, row.resident).rows
        if tensor is None:
            raise EngineContract("resident rows", "rows that were not given back", "freed ones")
        found.append(tensor[row.index])
    return torch.stack(found)


def _padded(tensor: Tensor, bucket: int) -> Tensor:
    missing = bucket - len(tensor)
    return tensor if missing == 0 else torch.cat([tensor, tensor[-1:].expand(missing, *tensor.shape[1:])])


def _check(contract: StageContract, tensors: Mapping[str, Tensor], dtype: torch.dtype) -> None:
    """The stage's inputs that come from outside."""
    known = {c.name: tensors[c.name] for c in contract.inputs if c.name in tensors}
    name = str(dtype).removeprefix("torch.")
    wanted = StageContract(contract.stage, tuple(c for c in contract.inputs if c.name in known), ()).with_dtype(name)
    wanted.check_inputs(known)
