"""The `.pt` zip layout of `torch.save` without torch: tensors mapped in place on reading, streamed on writing."""

from __future__ import annotations

import math
import mmap
import struct
import zipfile
import zlib
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from avatars.errors import PacketInvalid
from avatars.pickles import Named, read_pickle

Array = npt.NDArray[Any]

_DTYPES: dict[str, np.dtype[Any]] = {
    "torch.FloatStorage": np.dtype("<f4"),
    "torch.DoubleStorage": np.dtype("<f8"),
    "torch.HalfStorage": np.dtype("<f2"),
    "torch.ByteStorage": np.dtype("u1"),
    "torch.CharStorage": np.dtype("i1"),
    "torch.ShortStorage": np.dtype("<i2"),
    "torch.IntStorage": np.dtype("<i4"),
    "torch.LongStorage": np.dtype("<i8"),
    "torch.BoolStorage": np.dtype("?"),
}
_STORAGES = {dtype: name.removeprefix("torch.") for name, dtype in _DTYPES.items()}
_MAX_ENTRIES = 20_000
_MAX_PICKLE_BYTES = 16 << 20
_ALIGNMENT = 64
_LOCAL_HEADER = struct.Struct("<4sHHHHHIIIHH")


class Tensor(NamedTuple):
    """A tensor to be written: a view into one of the file's storages."""

    storage: int
    offset: int
    """Elements from the storage's start."""
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    """In elements; 0 repeats."""


def read_torch_file(file: IO[bytes], field: str) -> Any:
    """What `torch.save` stored: lists, tuples and dictionaries of read-only arrays over the mapped file.

    `file` may be closed afterwards; the mapping lives as long as the arrays. Raises PacketInvalid naming `field`.
    """
    return TorchFile(file, field).root


class TorchFile:
    """An open `.pt` file. `root` is what was saved."""

    def __init__(self, file: IO[bytes], field: str) -> None:
        self._file = file
        self._field = field
        try:
            self._archive = zipfile.ZipFile(file)
            self._entries = {info.filename: info for info in self._listed()}
            self._map = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        except (zipfile.BadZipFile, zipfile.LargeZipFile, OSError, ValueError, OverflowError, struct.error) as error:
            raise PacketInvalid(
                field, "a file written by torch.save (1.6 or later)", f"no such file ({error})"
            ) from None
        pickle_name = next((name for name in self._entries if name.endswith("data.pkl") and name.count("/") <= 1), None)
        if pickle_name is None:
            raise PacketInvalid(field, "an archive with data.pkl", "none")
        self._prefix = pickle_name.removesuffix("data.pkl")
        if self._bytes_of("byteorder", b"little", 16) != b"little":
            raise PacketInvalid(field, "little-endian tensors", "big-endian ones")
        data = bytes(self._piece(pickle_name, _MAX_PICKLE_BYTES))
        self.root = read_pickle(data, field, self._names(), self._storage)

    def check_sums(self) -> None:
        """Compare every entry with its CRC-32, where its writer took one. Raises PacketInvalid."""
        for name, info in self._entries.items():
            if info.CRC and zlib.crc32(self._piece(name)) != info.CRC:
                raise PacketInvalid(self._field, "the bytes that were written (CRC-32)", f"others in {name[-40:]!r}")

    def _listed(self) -> list[zipfile.ZipInfo]:
        infos = self._archive.infolist()
        if len(infos) > _MAX_ENTRIES:
            raise PacketInvalid(self._field, f"at most {_MAX_ENTRIES} entries", f"{len(infos)}")
        for info in infos:
            if info.compress_type != zipfile.ZIP_STORED or info.compress_size != info.file_size or info.flag_bits & 1:
                raise PacketInvalid(self._field, "plain stored entries, as torch.save writes", "a packed or locked one")
        return infos

    def _piece(self, name: str, limit: int | None = None) -> memoryview:
        """The bytes of an entry, in place."""
        info = self._entries.get(name)
        if info is None:
            raise PacketInvalid(self._field, f"an entry {name[-60:]!r}", "none")
        start = info.header_offset
        header = self._map[start : start + _LOCAL_HEADER.size]
        if len(header) < _LOCAL_HEADER.size or not header.startswith(b"PK\x03\x04"):
            raise PacketInvalid(self._field, "an entry header where the directory says", "something else")
        *_, name_bytes, extra_bytes = _LOCAL_HEADER.unpack(header)
        start += _LOCAL_HEADER.size + name_bytes + extra_bytes
        if start + info.file_size > len(self._map) or (limit is not None and info.file_size > limit):
            raise PacketInvalid(self._field, "entries inside the file", f"one of {info.file_size} bytes")
        return memoryview(self._map)[start : start + info.file_size]

    def _bytes_of(self, name: str, default: bytes, limit: int) -> bytes:
        full = self._prefix + name
        return bytes(self._piece(full, limit)) if full in self._entries else default

    def _names(self) -> dict[str, Callable[..., Any]]:
        names: dict[str, Callable[..., Any]] = {name: _not_called for name in _DTYPES}
        names["torch._utils._rebuild_tensor_v2"] = self._rebuild
        names["collections.OrderedDict"] = lambda: None
        return names

    def _storage(self, reference: object) -> Array:
        match reference:
            case ("storage", Named() as kind, str(key), str(), int(count)) if kind.name in _DTYPES and count >= 0:
                dtype = _DTYPES[kind.name]
            case _:
                raise PacketInvalid(self._field, "plain CPU or GPU storages of known types", "something else")
        piece = self._piece(f"{self._prefix}data/{key}")
        if len(piece) != count * dtype.itemsize:
            raise PacketInvalid(self._field, f"a storage of {count} x {dtype}", f"{len(piece)} bytes")
        return np.frombuffer(piece, dtype=dtype)

    def _rebuild(self, storage: object, offset: object, shape: object, strides: object, *_: object) -> Array:
        size, steps = _whole_numbers(shape), _whole_numbers(strides)
        if not isinstance(storage, np.ndarray) or type(offset) is not int or size is None or steps is None:
            raise PacketInvalid(self._field, "a tensor over a storage", "something else")
        last = offset + sum((n - 1) * step for n, step in zip(size, steps, strict=False))
        if len(size) != len(steps) or len(size) > 8 or offset < 0 or (0 not in size and last >= storage.size):
            raise PacketInvalid(
                self._field, f"a tensor inside its storage of {storage.size}", f"shape {size} at {offset}"
            )
        if math.prod(size) > 1 << 40:
            raise PacketInvalid(self._field, "a tensor of sane size", f"shape {size}")
        item = storage.itemsize
        in_bytes = tuple(step * item for step in steps)
        view: Array = np.ndarray(size, storage.dtype, storage.data, offset * item, in_bytes)
        return view


class TorchWriter:
    """Writes a `.pt` file storage by storage, so that a clip never has to fit in memory. Use as a context manager."""

    def __init__(self, path: Path) -> None:
        self.storages: list[tuple[np.dtype[Any], int]] = []
        """Type and elements of each storage so far."""
        self.storage_starts: list[int] = []
        """Where in the file the bytes of each storage begin."""
        self._stem = path.stem
        self._file = path.open("xb")
        self._archive = zipfile.ZipFile(self._file, "w", zipfile.ZIP_STORED)
        self._stream: IO[bytes] | None = None

    def __enter__(self) -> TorchWriter:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            try:
                self._end_storage()
                self._archive.close()
                self._file.close()
            except OSError:
                self._abandon()
                raise
        else:
            self._abandon()

    def begin_storage(self, dtype: np.dtype[Any]) -> int:
        """Start the next storage; `append` fills it. Returns its number."""
        self._end_storage()
        self._stream = self._archive.open(self._entry(f"data/{len(self.storages)}"), "w", force_zip64=True)
        self.storages.append((dtype, 0))
        self.storage_starts.append(self._file.tell())
        return len(self.storages) - 1

    def append(self, values: Array) -> int:
        """Add elements to the storage begun last. Returns the offset of the first, in elements."""
        dtype, count = self.storages[-1]
        if self._stream is None or values.dtype != dtype:
            raise TypeError(f"a storage of {dtype} cannot take {values.dtype}")
        self._stream.write(np.ascontiguousarray(values).reshape(-1).view(np.uint8).data)
        self.storages[-1] = (dtype, count + values.size)
        return count

    def flush(self) -> None:
        """Make what was appended readable in the file."""
        self._file.flush()

    def finish(self, root: Tensor | list[Tensor]) -> None:
        """Close the last storage and write what ties the storages together."""
        self._end_storage()
        small = {"data.pkl": _pickle(root, self.storages), "byteorder": b"little", "version": b"3\n"}
        for name, data in small.items():
            self._archive.writestr(self._entry(name), data)

    def _entry(self, name: str) -> zipfile.ZipInfo:
        """An entry whose data will start at a multiple of 64 bytes, which mapped readers want."""
        info = zipfile.ZipInfo(f"{self._stem}/{name}", (1980, 1, 1, 0, 0, 0))
        zip64_bytes = 20
        plain = self._file.tell() + _LOCAL_HEADER.size + len(info.filename.encode()) + zip64_bytes + 4
        padding = -plain % _ALIGNMENT
        info.extra = struct.pack("<2sH", b"FB", padding) + b"Z" * padding
        return info

    def _abandon(self) -> None:
        """Let go of a file that cannot be finished, on a full disk for example."""
        self._archive.fp = None
        with suppress(OSError):
            self._file.close()

    def _end_storage(self) -> None:
        if self._stream is not None:
            self._stream.close()
            self._stream = None


def write_torch_file(path: Path, arrays: Array | list[Array]) -> None:
    """Save one array, or a list of them, as `torch.save` would. Repeated axes and shared arrays stay shared."""
    listed = arrays if isinstance(arrays, list) else [arrays]
    placed: dict[int, tuple[int, int]] = {}
    tensors = []
    with TorchWriter(path) as writer:
        for array in listed:
            once = array[tuple(slice(0, 1) if stride == 0 else slice(None) for stride in array.strides)]
            if id(array) not in placed:
                if not writer.storages or writer.storages[-1][0] != array.dtype:
                    writer.begin_storage(array.dtype)
                placed[id(array)] = (len(writer.storages) - 1, writer.append(once))
            storage, offset = placed[id(array)]
            steps = np.cumprod([1, *once.shape[:0:-1]])[::-1].tolist()
            strides = tuple(0 if stride == 0 else step for stride, step in zip(array.strides, steps, strict=True))
            tensors.append(Tensor(storage, offset, array.shape, strides))
        writer.finish(tensors if isinstance(arrays, list) else tensors[0])


def _not_called(*_: object) -> None:
    raise ValueError("a storage type is called")


def _whole_numbers(value: object) -> tuple[int, ...] | None:
    if isinstance(value, tuple) and all(type(item) is int and item >= 0 for item in value):
        return value
    return None


def _pickle(root: Tensor | list[Tensor], storages: list[tuple[np.dtype[Any], int]]) -> bytes:
    """Protocol 2, the opcodes torch.save uses. As there, what comes again is fetched from the memo."""
    pickler = _Pickler(storages)
    if isinstance(root, Tensor):
        return b"\x80\x02" + pickler.tensor(root) + b"."
    return b"\x80\x02](" + b"".join(pickler.tensor(tensor) for tensor in root) + b"e."


class _Pickler:
    """Writes tensors as torch rebuilds them."""

    def __init__(self, storages: list[tuple[np.dtype[Any], int]]) -> None:
        self._storages = storages
        self._memo: dict[object, int] = {}

    def tensor(self, tensor: Tensor) -> bytes:
        return self._once(tensor, lambda: (
            self._once("rebuild", lambda: b"ctorch._utils\n_rebuild_tensor_v2\n") + b"("
            + self._once(("storage", tensor.storage), lambda: self._storage(tensor.storage))
            + _integer(tensor.offset) + self._integers(tensor.shape) + self._integers(tensor.strides) + b"\x89"
            + self._once("hooks", lambda: b"ccollections\nOrderedDict\n)R") + b"tR"
        ))  # fmt: skip

    def _storage(self, number: int) -> bytes:
        dtype, count = self._storages[number]
        kind = b"ctorch\n" + _STORAGES[dtype].encode() + b"\n"
        return b"(" + _text("storage") + kind + _text(str(number)) + _text("cpu") + _integer(count) + b"tQ"

    def _integers(self, values: tuple[int, ...]) -> bytes:
        return self._once(values, lambda: b"(" + b"".join(_integer(value) for value in values) + b"t")

    def _once(self, key: object, write: Callable[[], bytes]) -> bytes:
        """The value's opcodes and a place in the memo, or, later, a look at that place."""
        if key in self._memo:
            number = self._memo[key]
            return b"h" + bytes([number]) if number < 256 else b"j" + struct.pack("<I", number)
        written = write()
        number = self._memo[key] = len(self._memo)
        return written + (b"q" + bytes([number]) if number < 256 else b"r" + struct.pack("<I", number))


def _text(value: str) -> bytes:
    data = value.encode()
    return b"X" + struct.pack("<I", len(data)) + data


def _integer(value: int) -> bytes:
    if value < 1 << 8:
        return b"K" + bytes([value])
    if value < 1 << 16:
        return b"M" + struct.pack("<H", value)
    if value < 1 << 31:
        return b"J" + struct.pack("<i", value)
    data = value.to_bytes(9, "little", signed=True)
    return b"\x8a" + bytes([len(data)]) + data
