"""Stages joined by the names of their tensors, as every backend runs them. Knows tensors and contracts, no model.

What one stage gives and a later one takes stays where it is; only the last stage's outputs come back.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from engines.errors import EngineContract
from engines.stage import StageContract

Array = npt.NDArray[Any]


class Resident(Protocol):
    """Rows of a tensor that lie where the stages run."""

    @property
    def nbytes(self) -> int: ...

    def free(self) -> None:
        """Give the memory back. Idempotent."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class Row:
    """One row of something resident."""

    resident: Resident
    index: int


class Chain(Protocol):
    """One backend's way to run the stages."""

    @property
    def buckets(self) -> tuple[int, ...]: ...

    def upload(self, rows: Array) -> Resident:
        """Rows to where the stages run, for many calls."""
        ...

    def run(self, resident: Mapping[str, Sequence[Row]], given: Mapping[str, Array]) -> dict[str, Array]:
        """The last stage's outputs, as many rows as came in. Resident rows and given arrays by input name.

        Raises EngineContract where something does not fit.
        """
        ...

    def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Flow:
    """Which tensors a chain of stages takes from outside, and which it gives."""

    stages: tuple[StageContract, ...]

    @property
    def outer(self) -> tuple[str, ...]:
        """Inputs that no earlier stage makes."""
        made: set[str] = set()
        found: list[str] = []
        for stage in self.stages:
            found += [c.name for c in stage.inputs if c.name not in made and c.name not in found]
            made |= {c.name for c in stage.outputs}
        return tuple(found)

    @property
    def outputs(self) -> tuple[str, ...]:
        return tuple(c.name for c in self.stages[-1].outputs)

    def count(self, resident: Mapping[str, Sequence[Row]], given: Mapping[str, Array]) -> int:
        """How many rows come in. Raises EngineContract where inputs are missing, unknown or of different numbers."""
        names = set(resident) | set(given)
        for name in sorted(names ^ set(self.outer)):
            what = ("an input", "nothing") if name in self.outer else ("nothing", "an input")
            raise EngineContract(name, *what)
        counts = {name: len(rows) for name, rows in resident.items()} | {n: len(a) for n, a in given.items()}
        if len(set(counts.values())) != 1:
            raise EngineContract("batch", "the same number of rows everywhere", str(counts))
        return next(iter(counts.values()))


def bucket_for(count: int, buckets: Sequence[int]) -> int:
    """The smallest batch size that holds so many rows. Raises EngineContract where none does."""
    found = next((bucket for bucket in buckets if bucket >= count), None)
    if found is None or count < 1:
        raise EngineContract("batch", f"1 to {max(buckets)} rows", str(count))
    return found


def padded(array: Array, bucket: int) -> Array:
    """The last row repeated up to the bucket."""
    missing = bucket - len(array)
    return array if missing == 0 else np.concatenate([array, np.repeat(array[-1:], missing, axis=0)])
