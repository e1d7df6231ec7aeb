"""Stages by TensorRT plans: memory of every bucket set up once, its work recorded as a CUDA graph and replayed.

Between two calls nothing is allocated. What comes back goes to page-locked memory; the thread sleeps on an event.
Needs a GPU; the plans are code and are believed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import numpy as np

from engines.backends.chain import Array, Flow, Resident, Row, bucket_for, padded
from engines.backends.cuda import Cuda, DeviceMemory, PinnedArray
from engines.backends.tensorrt_api import TensorRt
from engines.backends.tensorrt_build import check_tensors, dtype_name
from engines.contract import TensorContract
from engines.errors import EngineContract, EngineUnavailable
from engines.stage import StageContract

_TYPES = ("float32", "float16", "uint8")
"""What there are arrays of; a plan whose borders have others is refused."""


@dataclass(frozen=True, slots=True, eq=False)
class Plan:
    """One stage's plan. `names` says what a plan that was built elsewhere calls the contract's tensors."""

    contract: StageContract
    path: Path
    names: Mapping[str, str] = field(default_factory=dict)

    def name(self, tensor: str) -> str:
        return self.names.get(tensor, tensor)


class _Stage:
    """A plan on the device."""

    def __init__(self, api: TensorRt, plan: Plan, buckets: tuple[int, ...]) -> None:
        trt = api.module
        self.plan = plan
        # A context for every batch size: each is to have its own profile's memory, not the largest one's.
        self.allocation = trt.ExecutionContextAllocationStrategy.ON_PROFILE_CHANGE
        self.runtime = trt.Runtime(trt.Logger())
        if not plan.path.is_file():
            raise EngineUnavailable(api.backend, f"there is no plan {plan.path}", "Name one that is there.")
        self.engine = self.runtime.deserialize_cuda_engine(plan.path.read_bytes())
        if self.engine is None:
            remedy = "Build it again on this machine: `liveanchor engines build`."
            raise EngineUnavailable(api.backend, f"{plan.path.name} does not load here", remedy)
        self.dtypes = {n: dtype_name(self.engine.get_tensor_dtype(n)) for n in self._names()}
        self._check(trt, buckets)

    def profile_of(self, bucket: int) -> int:
        """Which of the plan's profiles takes a bucket. Raises EngineContract."""
        first = self.plan.name(self.plan.contract.inputs[0].name)
        for profile in range(self.engine.num_optimization_profiles):
            low, _, high = self.engine.get_tensor_profile_shape(first, profile)
            if low[0] <= bucket <= high[0]:
                return profile
        raise EngineContract(self.plan.contract.stage, f"a profile for batches of {bucket}", "none in the plan")

    def _names(self) -> list[str]:
        return [self.engine.get_tensor_name(i) for i in range(self.engine.num_io_tensors)]

    def _check(self, trt: Any, buckets: tuple[int, ...]) -> None:
        contract = self.plan.contract
        back = {self.plan.name(c.name): c.name for c in (*contract.inputs, *contract.outputs)}
        found: dict[bool, dict[str, tuple[tuple[int, ...], str]]] = {True: {}, False: {}}
        for name in self._names():
            is_input = self.engine.get_tensor_mode(name) == trt.TensorIOMode.INPUT
            shape = tuple(self.engine.get_tensor_shape(name))
            found[is_input][back.get(name, name)] = (shape, self.dtypes[name])
        check_tensors(contract.stage, contract.inputs, found[True])
        check_tensors(contract.stage, contract.outputs, found[False])
        for name, dtype in self.dtypes.items():
            if dtype not in _TYPES:
                raise EngineContract(f"{contract.stage}.{back[name]}", f"one of {', '.join(_TYPES)}", dtype)
        for bucket in buckets:
            self.profile_of(bucket)


class _Bucket:
    """Everything that one batch size needs, from one end to the other."""

    def __init__(self, cuda: Cuda, stages: Sequence[_Stage], flow: Flow, bucket: int) -> None:
        self._cuda = cuda
        self._bucket = bucket
        self.memory: dict[str, DeviceMemory] = {}
        self.pinned: dict[str, PinnedArray] = {}
        self.stream, self.event = cuda.stream(), cuda.event()
        self._contexts = [self._context(stage) for stage in stages]
        ends = {*flow.outer, *flow.outputs}
        for stage in stages:
            for contract in (*stage.plan.contract.inputs, *stage.plan.contract.outputs):
                if contract.name in ends:
                    dtype = stage.dtypes[stage.plan.name(contract.name)]
                    self.pinned[contract.name] = cuda.pinned(_shape(contract, bucket), dtype)
        self._outputs = flow.outputs
        self._graph: Any = None

    def row(self, name: str, place: int, source: int, nbytes: int) -> None:
        """Put a resident row into its place of the batch, on the device."""
        self._cuda.copy(self.memory[name].address + place * nbytes, source, nbytes, self.stream)

    def give(self, name: str, array: Array) -> None:
        """Send an array of the whole bucket."""
        pinned = self.pinned[name]
        np.copyto(pinned.array, array, casting="same_kind")
        self._cuda.copy(self.memory[name].address, pinned.address, pinned.nbytes, self.stream)

    def run(self) -> None:
        """Compute, copy the outputs out, and sleep until they are there."""
        if self._graph is None:
            self._work()
        else:
            self._cuda.launch(self._graph, self.stream)
        self._cuda.record(self.event, self.stream)
        self._cuda.wait(self.event)
        if self._graph is None and self._recordable():
            # Only now: the first run allocates and compiles, which no recording can hold.
            self._cuda.begin_capture(self.stream)
            self._work()
            self._graph = self._cuda.end_capture(self.stream)

    def close(self) -> None:
        for memory in self.memory.values():
            memory.free()
        for pinned in self.pinned.values():
            pinned.free()
        if self._graph is not None:
            self._cuda.give_back("cudaGraphExecDestroy", self._graph)
        self._cuda.give_back("cudaEventDestroy", self.event)
        self._cuda.give_back("cudaStreamDestroy", self.stream)

    def _context(self, stage: _Stage) -> Any:
        context = stage.engine.create_execution_context(stage.allocation)
        context.set_optimization_profile_async(stage.profile_of(self._bucket), int(self.stream))
        contract = stage.plan.contract
        for tensor in contract.inputs:
            if not context.set_input_shape(stage.plan.name(tensor.name), _shape(tensor, self._bucket)):
                raise EngineContract(f"{contract.stage}.{tensor.name}", str(_shape(tensor, self._bucket)), "refused")
        for tensor in (*contract.inputs, *contract.outputs):
            name = stage.plan.name(tensor.name)
            if tensor.name not in self.memory:
                nbytes = int(np.prod(_shape(tensor, self._bucket))) * np.dtype(stage.dtypes[name]).itemsize
                self.memory[tensor.name] = self._cuda.allocate(nbytes)
            if not context.set_tensor_address(name, self.memory[tensor.name].address):
                raise EngineContract(f"{contract.stage}.{tensor.name}", "a device address", "refused")
        return context

    def _recordable(self) -> bool:
        """TensorRT-RTX says when a plan allocates or compiles as it runs; until it no longer does it is run plainly."""
        asked = [getattr(context, "is_stream_capturable", None) for context in self._contexts]
        return all(ask is None or ask(int(self.stream)) for ask in asked)

    def _work(self) -> None:
        for context in self._contexts:
            if not context.execute_async_v3(int(self.stream)):
                raise EngineContract("plan", "a run", "it refuses to run")
        for name in self._outputs:
            self._cuda.copy(self.pinned[name].address, self.memory[name].address, self.pinned[name].nbytes, self.stream)


class TensorRtChain:
    """Implements chain.Chain."""

    def __init__(
        self, api: TensorRt, plans: Sequence[Plan], buckets: tuple[int, ...], cuda: Cuda | None = None
    ) -> None:
        """Raises EngineUnavailable (no GPU, a plan of another machine), EngineContract."""
        self.buckets = buckets
        self._cuda = cuda or Cuda()
        self._flow = Flow(tuple(plan.contract for plan in plans))
        self._stages = [_Stage(api, plan, buckets) for plan in plans]
        self._same_types()
        self._made: dict[int, _Bucket] = {}

    def upload(self, rows: Array) -> Resident:
        dtype = self._dtype_of(self._flow.outer[0])
        host = np.ascontiguousarray(rows, dtype=dtype)
        memory, stream, event = self._cuda.allocate(host.nbytes), self._cuda.stream(), self._cuda.event()
        self._cuda.copy(memory.address, host.ctypes.data, host.nbytes, stream)
        self._cuda.record(event, stream)
        self._cuda.wait(event)
        self._cuda.give_back("cudaEventDestroy", event)
        self._cuda.give_back("cudaStreamDestroy", stream)
        return memory

    def run(self, resident: Mapping[str, Sequence[Row]], given: Mapping[str, Array]) -> dict[str, Array]:
        count = self._flow.count(resident, given)
        size = bucket_for(count, self.buckets)
        bucket = self._made.get(size)
        if bucket is None:
            bucket = self._made[size] = _Bucket(self._cuda, self._stages, self._flow, size)
        for name, rows in resident.items():
            for place, row in enumerate([*rows, *[rows[-1]] * (size - count)]):
                memory, nbytes = cast(DeviceMemory, row.resident), bucket.pinned[name].nbytes // size
                if not memory.address or (row.index + 1) * nbytes > memory.nbytes:
                    raise EngineContract(
                        name, f"a resident row of {nbytes} bytes", f"row {row.index} of {memory.nbytes}"
                    )
                bucket.row(name, place, memory.address + row.index * nbytes, nbytes)
        for name, array in given.items():
            bucket.give(name, padded(array, size))
        bucket.run()
        return {name: bucket.pinned[name].array[:count].copy() for name in self._flow.outputs}

    def close(self) -> None:
        for bucket in self._made.values():
            bucket.close()
        self._made.clear()
        self._stages.clear()

    def _dtype_of(self, tensor: str) -> str:
        for stage in self._stages:
            name = stage.plan.name(tensor)
            if name in stage.dtypes:
                return stage.dtypes[name]
        raise EngineContract(tensor, "a tensor of a plan", "none of this name")

    def _same_types(self) -> None:
        """What one plan gives another takes: their types must be the same. Raises EngineContract."""
        seen: dict[str, str] = {}
        for stage in self._stages:
            for contract in (*stage.plan.contract.inputs, *stage.plan.contract.outputs):
                dtype = stage.dtypes[stage.plan.name(contract.name)]
                if seen.setdefault(contract.name, dtype) != dtype:
                    found = f"{seen[contract.name]} and {dtype}"
                    raise EngineContract(contract.name, "one type in all plans", found)


def _shape(contract: TensorContract, bucket: int) -> tuple[int, ...]:
    return tuple(bucket if isinstance(size, str) else size for size in contract.shape)
