"""The few CUDA runtime calls the TensorRT backend makes, each checked. Nothing here needs a GPU to be imported."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from engines.errors import EngineOutput, EngineUnavailable

_REMEDY = "Install liveanchor[gpu] and NVIDIA's driver, or take an engine that runs on the CPU (--engine warp)."


@dataclass(frozen=True, slots=True)
class Device:
    """A card."""

    name: str
    compute_capability: str


class Cuda:
    """The runtime, on its first device. Raises EngineUnavailable where there is none."""

    def __init__(self) -> None:
        try:
            from cuda.bindings import runtime
        except ImportError as error:
            raise EngineUnavailable("cuda", f"{error.name} is not installed", _REMEDY) from error
        self.api: Any = runtime
        try:
            status, count = runtime.cudaGetDeviceCount()
        except RuntimeError as error:
            raise EngineUnavailable("cuda", str(error).split("\n", 1)[0], _REMEDY) from error
        if status != runtime.cudaError_t.cudaSuccess or not count:
            raise EngineUnavailable("cuda", f"there is no NVIDIA GPU here ({_word(status)})", _REMEDY)
        self._call("cudaSetDevice", 0)

    def device(self) -> Device:
        found = self._call("cudaGetDeviceProperties", 0)
        name = found.name.decode() if isinstance(found.name, bytes) else str(found.name)
        return Device(name, f"{found.major}.{found.minor}")

    def allocate(self, nbytes: int) -> DeviceMemory:
        return DeviceMemory(self, int(self._call("cudaMalloc", nbytes)), nbytes)

    def pinned(self, shape: Sequence[int], dtype: npt.DTypeLike) -> PinnedArray:
        nbytes = int(np.prod(shape)) * np.dtype(dtype).itemsize
        return PinnedArray(self, int(self._call("cudaHostAlloc", nbytes, 0)), tuple(shape), np.dtype(dtype))

    def stream(self) -> Any:
        return self._call("cudaStreamCreateWithFlags", self.api.cudaStreamNonBlocking)

    def event(self) -> Any:
        """One that lets the waiting thread sleep and keeps no time."""
        return self._call("cudaEventCreateWithFlags", self.api.cudaEventBlockingSync | self.api.cudaEventDisableTiming)

    def copy(self, target: int, source: int, nbytes: int, stream: Any) -> None:
        """Asynchronous, in whichever direction the addresses say."""
        self._call("cudaMemcpyAsync", target, source, nbytes, self.api.cudaMemcpyKind.cudaMemcpyDefault, stream)

    def record(self, event: Any, stream: Any) -> None:
        self._call("cudaEventRecord", event, stream)

    def wait(self, event: Any) -> None:
        self._call("cudaEventSynchronize", event)

    def begin_capture(self, stream: Any) -> None:
        mode = self.api.cudaStreamCaptureMode.cudaStreamCaptureModeThreadLocal
        self._call("cudaStreamBeginCapture", stream, mode)

    def end_capture(self, stream: Any) -> Any:
        """The recorded work, ready to be launched."""
        graph = self._call("cudaStreamEndCapture", stream)
        made = self._call("cudaGraphInstantiate", graph, 0)
        self._call("cudaGraphDestroy", graph)
        return made

    def launch(self, graph: Any, stream: Any) -> None:
        self._call("cudaGraphLaunch", graph, stream)

    def give_back(self, name: str, handle: Any) -> None:
        """Destroy or free something; a driver that is already going away is no trouble."""
        getattr(self.api, name)(handle)

    def _call(self, name: str, *arguments: Any) -> Any:
        status, *values = getattr(self.api, name)(*arguments)
        if status != self.api.cudaError_t.cudaSuccess:
            raise EngineOutput("cuda", f"{name} failed: {_word(status)}")
        return values[0] if values else None


class DeviceMemory:
    """Bytes on the device; also chain.Resident."""

    def __init__(self, cuda: Cuda, address: int, nbytes: int) -> None:
        self._cuda = cuda
        self.address = address
        self.nbytes = nbytes

    def free(self) -> None:
        if self.address:
            self._cuda.give_back("cudaFree", self.address)
            self.address = 0


class PinnedArray:
    """Page-locked memory of this process as an array: copies to and from the device do not stop the thread."""

    def __init__(self, cuda: Cuda, address: int, shape: tuple[int, ...], dtype: np.dtype[Any]) -> None:
        self._cuda = cuda
        self.address = address
        self.nbytes = int(np.prod(shape)) * dtype.itemsize
        buffer = (ctypes.c_uint8 * self.nbytes).from_address(address)
        self.array: npt.NDArray[Any] = np.frombuffer(memoryview(buffer), dtype=dtype).reshape(shape)

    def free(self) -> None:
        if self.address:
            self._cuda.give_back("cudaFreeHost", self.address)
            self.address = 0


def _word(status: Any) -> str:
    return str(getattr(status, "name", status))
