"""The way data takes through TensorRT plans, on a stand-in device of ordinary memory.

Copies, addresses and replays are real. The stand-in poisons its memory, refuses addresses it did not give out and
counts what is alive; its plans compute the contract network. What only a GPU can show is in tests/gpu.
"""

from __future__ import annotations

import ctypes
from types import SimpleNamespace

import numpy as np
import pytest

from engines.backends.chain import Row
from engines.backends.cuda import DeviceMemory, PinnedArray
from engines.backends.tensorrt_api import TensorRt
from engines.backends.tensorrt_chain import Plan, TensorRtChain
from engines.contract_net import network
from engines.contract_net.contracts import CONTRACTS
from engines.errors import EngineContract, EngineUnavailable

pytestmark = pytest.mark.unit
UNET, DECODER = CONTRACTS[1:]
POISON = 0xA5


class HostCuda:
    """Device memory is this process's own; work on a stream is done at once, or recorded."""

    def __init__(self):
        self.alive = {}
        self.recording = None
        self.launches = 0

    def _memory(self, nbytes):
        buffer = np.full(nbytes, POISON, np.uint8)
        self.alive[buffer.ctypes.data] = buffer
        return buffer.ctypes.data

    def allocate(self, nbytes):
        return DeviceMemory(self, self._memory(nbytes), nbytes)

    def pinned(self, shape, dtype):
        dtype = np.dtype(dtype)
        return PinnedArray(self, self._memory(int(np.prod(shape)) * dtype.itemsize), tuple(shape), dtype)

    def stream(self):
        return 7

    def event(self):
        return 8

    def inside(self, address, nbytes):
        return any(start <= address and address + nbytes <= start + b.nbytes for start, b in self.alive.items())

    def do(self, work):
        work() if self.recording is None else self.recording.append(work)

    def copy(self, target, source, nbytes, stream):
        assert self.inside(target, nbytes)
        assert stream == 7
        self.do(lambda: ctypes.memmove(target, source, nbytes))

    def record(self, event, stream):
        assert self.recording is None

    def wait(self, event):
        assert self.recording is None

    def begin_capture(self, stream):
        self.recording = []

    def end_capture(self, stream):
        recorded, self.recording = self.recording, None
        return recorded

    def launch(self, graph, stream):
        self.launches += 1
        for work in graph:
            work()

    def give_back(self, name, handle):
        if name in ("cudaFree", "cudaFreeHost"):
            del self.alive[handle]


class HostContext:
    def __init__(self, engine):
        self.engine = engine
        self.shapes, self.addresses, self.profile = {}, {}, None

    def is_stream_capturable(self, stream):
        return self.engine.capturable

    def set_optimization_profile_async(self, profile, stream):
        self.profile = profile

    def set_input_shape(self, name, shape):
        assert self.profile is not None, "a shape before its profile"
        self.shapes[name] = shape
        low, _, high = self.engine.get_tensor_profile_shape(name, self.profile)
        return all(a <= b <= c for a, b, c in zip(low, shape, high, strict=True))

    def set_tensor_address(self, name, address):
        self.addresses[name] = address
        return self.engine.cuda.inside(address, 1)

    def execute_async_v3(self, stream):
        self.engine.cuda.do(self._run)
        return True

    def _run(self):
        engine = self.engine
        batch = next(iter(self.shapes.values()))[0]
        tensors = {}
        for name, (shape, dtype, _) in engine.tensors.items():
            size = (batch, *shape[1:])
            nbytes = int(np.prod(size)) * np.dtype(dtype).itemsize
            assert engine.cuda.inside(self.addresses[name], nbytes), name
            buffer = (ctypes.c_uint8 * nbytes).from_address(self.addresses[name])
            tensors[name] = np.frombuffer(memoryview(buffer), dtype).reshape(size)
        inputs = [tensors[n].astype(np.float32) for n, (_, _, is_input) in engine.tensors.items() if is_input]
        for name, found in zip(
            (n for n, t in engine.tensors.items() if not t[2]), engine.compute(*inputs), strict=True
        ):
            tensors[name][...] = found


class HostEngine:
    """A plan: names, shapes, types and profiles as TensorRT tells them."""

    num_optimization_profiles = 3
    buckets = (1, 2, 4)
    capturable = True

    def __init__(self, cuda, tensors, compute):
        self.cuda, self.tensors, self.compute = cuda, tensors, compute
        self.num_io_tensors = len(tensors)

    def get_tensor_name(self, i):
        return list(self.tensors)[i]

    def get_tensor_mode(self, name):
        return "input" if self.tensors[name][2] else "output"

    def get_tensor_dtype(self, name):
        words = {"float32": "FLOAT", "float16": "HALF", "bfloat16": "BF16", "uint8": "UINT8", "int64": "INT64"}
        return f"DataType.{words[self.tensors[name][1]]}"

    def get_tensor_shape(self, name):
        return self.tensors[name][0]

    def get_tensor_profile_shape(self, name, profile):
        size = (self.buckets[profile], *self.tensors[name][0][1:])
        return size, size, size

    def create_execution_context(self, strategy):
        assert strategy == "on profile change", "six contexts with the memory of the largest profile each"
        return HostContext(self)


def tensors_of(contract, float_type, names):
    found = {}
    for is_input, group in ((True, contract.inputs), (False, contract.outputs)):
        for tensor in group:
            dtype = float_type if tensor.dtype == "float32" else tensor.dtype
            shape = (-1, *tensor.shape[1:])
            found[names.get(tensor.name, tensor.name)] = (shape, dtype, is_input)
    return found


class Bench:
    """A chain over stand-in plans."""

    def __init__(self, tmp_path, float_type="float32", names=None, change=None):
        self.cuda = HostCuda()
        names = names or {}
        engines = {
            b"unet": HostEngine(self.cuda, tensors_of(UNET, float_type, names), lambda x, a: [network.denoise(x, a)]),
            b"decoder": HostEngine(self.cuda, tensors_of(DECODER, float_type, names), lambda d: [network.decode(d)]),
        }
        if change:
            change(engines)
        runtime = SimpleNamespace(deserialize_cuda_engine=engines.get)
        module = SimpleNamespace(
            __version__="1",
            Logger=lambda: None,
            Runtime=lambda logger: runtime,
            TensorIOMode=SimpleNamespace(INPUT="input"),
            ExecutionContextAllocationStrategy=SimpleNamespace(ON_PROFILE_CHANGE="on profile change"),
        )
        plans = []
        for contract in (UNET, DECODER):
            path = tmp_path / f"{contract.stage}.engine"
            path.write_bytes(contract.stage.encode())
            plans.append(Plan(contract, path, names))
        self.again = lambda: TensorRtChain(TensorRt("tensorrt-rtx", module), plans, (1, 2, 4), self.cuda)
        self.chain = self.again()

    def run(self, count, seed=0, rows=None):
        chance = np.random.default_rng(seed)
        latents = (0.3 * chance.normal(size=(6, 8, 32, 32))).astype(np.float16)
        audio = chance.normal(size=(count, 50, 384)).astype(np.float32)
        picked = rows or list(range(count))
        resident = self.chain.upload(latents)
        found = self.chain.run({"latent": [Row(resident, i) for i in picked]}, {"audio": audio})["faces"]
        resident.free()
        wanted = network.decode(network.denoise(latents[picked].astype(np.float32), audio))
        return found, wanted


@pytest.mark.parametrize("count", [1, 2, 3, 4])
def test_rows_and_sound_go_in_and_the_right_faces_come_out(tmp_path, count):
    found, wanted = Bench(tmp_path).run(count)
    assert found.shape == (count, 256, 256, 3)
    assert np.array_equal(found, wanted)


def test_a_recorded_batch_is_replayed_with_the_new_data(tmp_path):
    bench = Bench(tmp_path)
    for seed in range(4):
        found, wanted = bench.run(3, seed=seed)
        assert np.array_equal(found, wanted)
    assert bench.cuda.launches == 3, "the first run is plain: it may allocate"


def test_a_plan_that_cannot_be_recorded_yet_is_run_plainly_until_it_can(tmp_path):
    engines = {}
    bench = Bench(tmp_path, change=engines.update)
    for engine in engines.values():
        engine.capturable = False
    for capturable, launches in ((False, 0), (True, 0), (True, 1)):
        engines[b"unet"].capturable = engines[b"decoder"].capturable = capturable
        found, wanted = bench.run(3, seed=launches)
        assert np.array_equal(found, wanted)
        assert bench.cuda.launches == launches


def test_more_rows_than_the_largest_batch_are_refused(tmp_path):
    with pytest.raises(EngineContract, match="1 to 4 rows"):
        Bench(tmp_path).run(5)


def test_avatars_rows_may_repeat_and_come_in_any_order(tmp_path):
    found, wanted = Bench(tmp_path).run(4, rows=[5, 0, 5, 2])
    assert np.array_equal(found, wanted)


def test_half_precision_plans_get_half_precision_data(tmp_path):
    found, wanted = Bench(tmp_path, "float16").run(2)
    assert np.abs(found.astype(int) - wanted).max() <= 2


def test_a_plan_with_names_of_its_own_is_used_through_the_binding_map(tmp_path):
    names = {"latent": "sample", "audio": "encoder_hidden_states", "denoised": "x", "faces": "images"}
    found, wanted = Bench(tmp_path, names=names).run(2)
    assert np.array_equal(found, wanted)


def test_nothing_is_left_on_the_device_when_it_is_closed(tmp_path):
    bench = Bench(tmp_path)
    bench.run(1)
    bench.run(4)
    bench.chain.close()
    assert bench.cuda.alive == {}


def test_rows_that_were_given_back_are_refused(tmp_path):
    bench = Bench(tmp_path)
    resident = bench.chain.upload(np.zeros((1, 8, 32, 32), np.float16))
    with pytest.raises(EngineContract, match="resident row"):
        bench.chain.run({"latent": [Row(resident, 1)]}, {"audio": np.zeros((1, 50, 384), np.float32)})
    resident.free()
    with pytest.raises(EngineContract, match="resident row"):
        bench.chain.run({"latent": [Row(resident, 0)]}, {"audio": np.zeros((1, 50, 384), np.float32)})


def four_channels(engines):
    engines[b"unet"].tensors["latent"] = ((-1, 4, 32, 32), "float32", True)


def other_type(engines):
    engines[b"decoder"].tensors["denoised"] = ((-1, 4, 32, 32), "float16", True)


def other_name(engines):
    tensors = engines[b"unet"].tensors
    tensors["timestep"] = ((-1,), "int64", True)
    engines[b"unet"].num_io_tensors += 1


def no_array_type(engines):
    for key, name in ((b"unet", "denoised"), (b"decoder", "denoised")):
        shape, _, is_input = engines[key].tensors[name]
        engines[key].tensors[name] = (shape, "bfloat16", is_input)


def small_profiles(engines):
    engines[b"unet"].buckets = (1, 1, 2)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (four_channels, r"unet\.latent.*masked.*\(-1, 4, 32, 32\)"), (other_type, "denoised"), (other_name, "timestep"),
        (small_profiles, "batches of 4"), (no_array_type, "denoised.*bfloat16"),
    ],
)  # fmt: skip
def test_a_plan_that_does_not_keep_the_contract_is_refused_when_it_is_loaded(tmp_path, change, words):
    with pytest.raises(EngineContract, match=words):
        Bench(tmp_path, change=change)


def test_a_plan_that_is_not_there_is_named(tmp_path):
    bench = Bench(tmp_path)
    (tmp_path / "unet.engine").unlink()
    with pytest.raises(EngineUnavailable, match=r"unet\.engine"):
        bench.again()


def test_a_plan_of_another_machine_is_refused_with_the_remedy(tmp_path):
    with pytest.raises(EngineUnavailable, match="engines build"):
        Bench(tmp_path, change=lambda engines: engines.clear())
