"""Whether two graphs compute the same: errors at every shared stage, against the floor that rounding alone sets."""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np
import numpy.typing as npt

from engines.graphs.errors import GraphsDiffer
from engines.graphs.model import Graph
from engines.graphs.running import Arrays, Runner, drawn_inputs, same_interface

WITHIN = 1.5
"""A rewrite may err this many times as much as the original does."""
_KEY = re.compile(r"(\d{1,6})/(in|out)/(.+)")
_ROUNDING = 2.0**-23
_PERCENTILE = 99.9


@dataclass(frozen=True, slots=True)
class Difference:
    """Absolute differences of two tensors, over all inputs."""

    max: float
    mean: float
    p99_9: float

    def as_json(self) -> dict[str, float]:
        """Plain values."""
        return {"max": self.max, "mean": self.mean, "p99_9": self.p99_9}


@dataclass(frozen=True, slots=True)
class Row:
    """One tensor in both graphs."""

    tensor: str
    output: bool
    """It is an output of the graphs, not a stage inside."""
    largest: float
    """Largest absolute value of it."""
    difference: Difference
    floor: Difference
    """Original against the reference."""
    ratio: float
    """Largest difference over largest floor."""


@dataclass(frozen=True, slots=True)
class Verification:
    """The comparison of two graphs."""

    rows: tuple[Row, ...]
    floor_source: str
    within: float

    @property
    def passed(self) -> bool:
        """Every output is as near to the original as that is to the reference, times `within`."""
        return all(row.ratio <= self.within for row in self.rows if row.output)

    def as_json(self) -> dict[str, Any]:
        """Plain values for `--json`."""
        return {
            "passed": self.passed,
            "within": self.within,
            "floor": self.floor_source,
            "tensors": [
                {
                    "name": row.tensor, "output": row.output, "largest": row.largest, "ratio": row.ratio,
                    "difference": row.difference.as_json(), "floor": row.floor.as_json(),
                }
                for row in self.rows
            ],
        }  # fmt: skip

    def lines(self) -> Iterator[str]:
        """The comparison as text."""
        yield f"floor: {self.floor_source}"
        yield f"{'tensor':<36} {'largest':>9}  {'max':>9} {'mean':>9} {'p99.9':>9}  {'floor max':>9} {'ratio':>6}"
        for row in self.rows:
            d = row.difference
            word = row.tensor if row.output else f"({row.tensor})"
            yield (
                f"{word:<36} {row.largest:9.3g}  {d.max:9.2e} {d.mean:9.2e} {d.p99_9:9.2e}"
                f"  {row.floor.max:9.2e} {row.ratio:6.2f}"
            )
        verdict = "within" if self.passed else "NOT within"
        yield f"{verdict} {self.within} times the floor"


@dataclass(frozen=True, slots=True, eq=False)
class Reference:
    """Fixed inputs with what the original network, outside any graph, gives for them."""

    inputs: tuple[Arrays, ...]
    outputs: tuple[Arrays, ...]

    def save(self, path: Path) -> None:
        """Write as .npz with keys CASE/in/NAME and CASE/out/NAME."""
        arrays: dict[str, Any] = {}
        for i, (given, found) in enumerate(zip(self.inputs, self.outputs, strict=True)):
            arrays |= {f"{i}/in/{name}": value for name, value in given.items()}
            arrays |= {f"{i}/out/{name}": value for name, value in found.items()}
        np.savez_compressed(path, **arrays)

    @classmethod
    def load(cls, path: Path) -> Reference:
        """Read what `save` wrote. Raises GraphsDiffer where the file is no such thing."""
        try:
            with path.open("rb") as file, np.load(file, allow_pickle=False) as stored:
                arrays = {key: stored[key] for key in stored.files}
        except (OSError, ValueError, EOFError, BadZipFile, zlib.error) as error:
            raise GraphsDiffer(str(path), f"no reference can be read from it: {error}") from error
        cases: dict[int, tuple[Arrays, Arrays]] = {}
        for key, value in arrays.items():
            found = _KEY.match(key)
            if found is None:
                raise GraphsDiffer(str(path), f"{key!r} in it is neither CASE/in/NAME nor CASE/out/NAME")
            cases.setdefault(int(found[1]), ({}, {}))[0 if found[2] == "in" else 1][found[3]] = value
        if not cases:
            raise GraphsDiffer(str(path), "there are no cases in it")
        ordered = [cases[i] for i in sorted(cases)]
        return cls(tuple(c[0] for c in ordered), tuple(c[1] for c in ordered))


def verify(
    original: Graph,
    changed: Graph,
    reference: Reference | None = None,
    *,
    stages: Sequence[str] | None = None,
    seed: int = 0,
    within: float = WITHIN,
) -> Verification:
    """Run both on the same fixed inputs and compare every shared stage. Raises GraphsDiffer (other inputs or outputs).

    What the reference does not have takes as floor the original against itself, optimisations off and inputs one
    rounding away: no rewrite can be asked to beat that. `stages` names inner tensors; None takes those that GridSample
    nodes make.
    """
    same_interface(original, changed)
    shown = [name for name in (samples(original) if stages is None else stages) if changed.shape(name) is not None]
    given = list(reference.inputs) if reference else drawn_inputs(original, seed, 2)
    first, second = _ran(original, shown, given), _ran(changed, shown, given)
    truth = _ran(original, shown, [nudged(inputs, seed) for inputs in given], optimised=False)
    source = "the original, inputs one rounding away"
    if reference:
        _fits(reference, first)
        truth = [noisy | known for noisy, known in zip(truth, reference.outputs, strict=True)]
        source = f"the original against the reference's outputs; (stages): {source}"
    rows = []
    for name in dict.fromkeys((*shown, *original.outputs())):
        change = difference([f[name] for f in first], [s[name] for s in second])
        floor = difference([f[name] for f in first], [t[name] for t in truth])
        largest = max(float(np.abs(f[name]).max(initial=0.0)) for f in first)
        least = max(floor.max, largest * _ROUNDING)
        ratio = change.max / least if least > 0 else (0.0 if change.max == 0 else float("inf"))
        rows.append(Row(name, name in original.outputs(), largest, change, floor, ratio))
    return Verification(tuple(rows), source, within)


def _fits(reference: Reference, found: Sequence[Arrays]) -> None:
    """The reference's outputs are outputs of the graph. Raises GraphsDiffer."""
    for known, own in zip(reference.outputs, found, strict=True):
        for name, value in known.items():
            if name not in own or own[name].shape != value.shape or value.dtype.kind not in "fiub":
                here = own[name].shape if name in own else "nothing"
                raise GraphsDiffer(name, f"the reference has {value.shape} {value.dtype}, the graph {here}")


def _ran(graph: Graph, shown: Sequence[str], given: Sequence[Arrays], *, optimised: bool = True) -> list[Arrays]:
    """One session at a time: a renderer's holds gigabytes."""
    run = Runner(graph, shown, optimised=optimised)
    return [run(inputs) for inputs in given]


def nudged(inputs: Arrays, seed: int) -> Arrays:
    """Every float moved to one of its neighbours, up or down by chance."""
    generator = np.random.default_rng(seed)
    moved: Arrays = {}
    for name, value in inputs.items():
        if not np.issubdtype(value.dtype, np.floating):
            moved[name] = value
            continue
        towards = np.where(generator.random(value.shape) < 0.5, -np.inf, np.inf).astype(value.dtype)
        moved[name] = np.nextafter(value, towards)
    return moved


def samples(graph: Graph) -> list[str]:
    """Tensors that GridSample nodes make: the stages that a rewrite touches."""
    return [node.output[0] for node in graph.nodes if node.op_type == "GridSample"]


def difference(left: Sequence[npt.NDArray[Any]], right: Sequence[npt.NDArray[Any]]) -> Difference:
    """Largest, mean and 99.9th-percentile absolute difference. Values that are not finite on one side differ by inf."""
    parts = []
    for a, b in zip(left, right, strict=True):
        a64, b64 = a.astype(np.float64).ravel(), b.astype(np.float64).ravel()
        with np.errstate(invalid="ignore"):  # inf - inf: settled two lines below
            apart = np.abs(a64 - b64)
        apart[np.isnan(apart)] = np.inf
        apart[np.isnan(a64) & np.isnan(b64) | (a64 == b64)] = 0.0
        parts.append(apart)
    joined = np.concatenate(parts) if parts else np.zeros(0)
    if joined.size == 0:
        return Difference(0.0, 0.0, 0.0)
    if not np.isfinite(joined).all():
        return Difference(float("inf"), float("inf"), float("inf"))
    return Difference(float(joined.max()), float(joined.mean()), float(np.percentile(joined, _PERCENTILE)))
