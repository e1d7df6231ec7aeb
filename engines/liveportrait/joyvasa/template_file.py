"""Reads the published motion statistics: a pickle of numpy arrays, read by a machine that can run nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from avatars.errors import PacketInvalid
from avatars.pickles import Buildable, read_pickle
from engines.errors import EngineContract, EngineUnavailable
from engines.liveportrait.joyvasa.coefficients import MotionTemplate

_CORES = ("numpy.core", "numpy._core")
_KINDS = frozenset("fiub")


class _Kind(Buildable):
    """Stands for a dtype; only numbers and truth values are let in."""

    def __init__(self, code: str, *_: object) -> None:
        self.dtype = np.dtype(code if code.lstrip("<>|=")[:1] in _KINDS else "void")
        self._checked(self.dtype.kind in _KINDS)

    def build(self, state: object) -> None:
        order = state[1] if isinstance(state, tuple) and len(state) > 1 else "="
        self._checked(order in ("<", ">", "|", "="))
        self.dtype = np.dtype(f"{order}{self.dtype.str[1:]}")

    @staticmethod
    def _checked(fine: bool) -> None:
        if not fine:
            raise ValueError("an array of something else than numbers")


class _Array(Buildable):
    """Stands for an array until its state arrives."""

    def __init__(self, *_: object) -> None:
        self.values: np.ndarray[Any, np.dtype[Any]] = np.zeros(0)

    def build(self, state: object) -> None:
        if not isinstance(state, tuple) or len(state) != 5 or not isinstance(state[2], _Kind):
            raise ValueError("an array without its state")
        _, shape, kind, by_columns, raw = state
        flat = np.frombuffer(raw, kind.dtype)
        self.values = flat.reshape(shape, order="F" if by_columns else "C").copy()


def _scalar(kind: _Kind, raw: bytes) -> float:
    return float(np.frombuffer(raw, kind.dtype)[0])


def _latin(text: str, *_: object) -> bytes:
    return text.encode("latin1")


_NAMES: dict[str, Any] = {"numpy.ndarray": _Array, "numpy.dtype": _Kind, "_codecs.encode": _latin}
for _core in _CORES:
    _NAMES[f"{_core}.multiarray._reconstruct"] = _Array
    _NAMES[f"{_core}.multiarray.scalar"] = _scalar


def read_template(path: Path) -> MotionTemplate:
    """The statistics. Raises EngineUnavailable (no such file), EngineContract (something else is in it)."""
    try:
        content = path.read_bytes()
    except OSError as error:
        remedy = "Run `liveanchor models pull joyvasa` or point --models at a folder that has it."
        raise EngineUnavailable("joyvasa", f"{path.name} is not there", remedy) from error
    try:
        found = read_pickle(content, path.name, _NAMES)
    except PacketInvalid as error:
        raise EngineContract(path.name, error.expected, error.found) from error
    if not isinstance(found, dict):
        raise EngineContract(path.name, "a dictionary", type(found).__name__)
    return MotionTemplate.of({k: v.values if isinstance(v, _Array) else v for k, v in found.items()})
