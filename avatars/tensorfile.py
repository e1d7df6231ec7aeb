"""Named arrays in safetensors files: mapped in place on reading, streamed on writing. For all beside the seven."""

from __future__ import annotations

import json
import math
import mmap
import struct
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.typing as npt

from avatars.errors import PacketInvalid

Array = npt.NDArray[Any]

_DTYPES: dict[str, np.dtype[Any]] = {
    "U8": np.dtype("u1"),
    "I16": np.dtype("<i2"),
    "I32": np.dtype("<i4"),
    "I64": np.dtype("<i8"),
    "F16": np.dtype("<f2"),
    "F32": np.dtype("<f4"),
    "F64": np.dtype("<f8"),
}
_NAMES = {dtype: name for name, dtype in _DTYPES.items()}
_MAX_HEADER_BYTES = 4 << 20
_HEADER_ROOM_BYTES = 8192
"""Left free at the start of a streamed file; safetensors headers may end in spaces."""


def read_tensor_file(file: IO[bytes], field: str) -> dict[str, Array]:
    """Read-only arrays over the mapped file, which may be closed afterwards. Raises PacketInvalid naming `field`."""
    try:
        data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    except (OSError, ValueError) as error:
        raise PacketInvalid(field, "a safetensors file", f"no such file ({error})") from None
    header_bytes = struct.unpack("<Q", data[:8])[0] if len(data) >= 8 else _MAX_HEADER_BYTES + 1
    if header_bytes > min(_MAX_HEADER_BYTES, len(data) - 8):
        raise PacketInvalid(field, "a safetensors header", "none")
    try:
        header = json.loads(data[8 : 8 + header_bytes])
    except (ValueError, RecursionError):
        header = None
    if not isinstance(header, dict):
        raise PacketInvalid(field, "a safetensors header", "no JSON object")
    body = memoryview(data)[8 + header_bytes :]
    return {name: _array(body, entry, field) for name, entry in header.items() if name != "__metadata__"}


def _array(body: memoryview, entry: object, field: str) -> Array:
    known: dict[str, Any] = entry if isinstance(entry, dict) else {}
    dtype, shape, offsets = _DTYPES.get(str(known.get("dtype"))), known.get("shape"), known.get("data_offsets")
    if dtype is None or not isinstance(shape, list) or not isinstance(offsets, list) or len(offsets) != 2:
        raise PacketInvalid(field, "dtype, shape and data_offsets of a known kind", "something else")
    start, end = offsets
    if not all(type(n) is int and n >= 0 for n in (*shape, start, end)) or not start <= end <= len(body):
        raise PacketInvalid(field, "arrays inside the file", "one outside")
    if math.prod(shape) * dtype.itemsize != end - start:
        raise PacketInvalid(field, f"{end - start} bytes of {dtype}", f"shape {shape[:8]}")
    values: Array = np.frombuffer(body[start:end], dtype=dtype).reshape(shape)
    return values


class TensorWriter:
    """Writes arrays one after another, each row by row, so that none has to fit in memory. Use as a context manager."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("xb")
        self._file.write(b" " * (8 + _HEADER_ROOM_BYTES))
        self._header: dict[str, dict[str, Any]] = {}

    def __enter__(self) -> TensorWriter:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None:
            with suppress(OSError):  # a full disk has already been told of
                self._file.close()
            return
        header = json.dumps(self._header, separators=(",", ":")).encode()
        if len(header) > _HEADER_ROOM_BYTES:
            raise ValueError("too many arrays for one file")
        try:
            self._file.seek(0)
            self._file.write(struct.pack("<Q", _HEADER_ROOM_BYTES) + header)
        finally:
            self._file.close()

    def add(self, name: str, values: Array) -> None:
        """A whole array."""
        # Eight-byte starts, as the format asks for its widest type.
        self._file.write(b"\0" * (-self._file.tell() % 8))
        start = self._position()
        self._put(values)
        kind, shape = _NAMES[values.dtype], list(values.shape)
        self._header[name] = {"dtype": kind, "shape": shape, "data_offsets": [start, self._position()]}

    def append(self, name: str, rows: Array) -> None:
        """More rows of the array added last, or the first of a new one."""
        if name not in self._header:
            self.add(name, rows)
            return
        entry = self._header[name]
        if entry["data_offsets"][1] != self._position() or entry["shape"][1:] != list(rows.shape[1:]):
            raise ValueError(f"{name} is closed, or its rows have another shape")
        self._put(rows)
        entry["shape"][0] += rows.shape[0]
        entry["data_offsets"][1] = self._position()

    def _put(self, values: Array) -> None:
        self._file.write(np.ascontiguousarray(values).reshape(-1).view(np.uint8).data)

    def _position(self) -> int:
        return self._file.tell() - 8 - _HEADER_ROOM_BYTES
