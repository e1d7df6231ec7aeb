"""Figures of long series: percentiles, slopes with their confidence, first part against last. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt

F64 = npt.NDArray[np.float64]
BLOCKS = 24
"""A slope is fitted to so many means: neighbours in time are not independent, whole blocks nearly are."""
LEAST_BLOCKS = 6
_T975 = (12.71, 4.30, 3.18, 2.78, 2.57, 2.45, 2.36, 2.31, 2.26, 2.23, 2.20, 2.18, 2.16, 2.14, 2.13, 2.12, 2.11, 2.10,
         2.09, 2.09, 2.08, 2.07)  # fmt: skip
"""Student's t at 97.5 % for 1, 2, … degrees of freedom."""


@dataclass(frozen=True, slots=True)
class Slope:
    """How a quantity changes with time."""

    per_hour: float
    low: float
    """95 % confidence."""
    high: float


def percentile(values: Sequence[float] | F64, percent: float) -> float | None:
    """None for no values."""
    return round(float(np.percentile(np.asarray(values, np.float64), percent)), 3) if len(values) else None


def slope(times_s: Sequence[float], values: Sequence[float]) -> Slope | None:
    """Least squares over block means; None where there is too little to say anything."""
    if len(values) < LEAST_BLOCKS:
        return None
    order = np.argsort(times_s, kind="stable")
    t = np.array_split(np.asarray(times_s, np.float64)[order] / 3600, min(BLOCKS, len(values)))
    v = np.array_split(np.asarray(values, np.float64)[order], min(BLOCKS, len(values)))
    x = np.array([block.mean() for block in t])
    y = np.array([block.mean() for block in v])
    spread = float(np.square(x - x.mean()).sum())
    if spread <= 0:
        return None
    per_hour = float(((x - x.mean()) * (y - y.mean())).sum() / spread)
    rest = y - y.mean() - per_hour * (x - x.mean())
    freedom = len(x) - 2
    error = float(np.sqrt(np.square(rest).sum() / freedom / spread)) * _T975[min(freedom, len(_T975)) - 1]
    return Slope(round(per_hour, 4), round(per_hour - error, 4), round(per_hour + error, 4))


def parts(times_s: Sequence[float], values: Sequence[float], seconds: float, count: int = 3) -> list[F64]:
    """The values of each of `count` equal parts of the run."""
    t, v = np.asarray(times_s, np.float64), np.asarray(values, np.float64)
    edges = [seconds * i / count for i in range(count + 1)]
    edges[-1] = float("inf")
    return [v[(t >= low) & (t < high)] for low, high in pairwise(edges)]


def ratio(last: float | None, first: float | None) -> float | None:
    """None where either is missing or the first is nothing."""
    return round(last / first, 3) if last is not None and first else None


def over_time(
    times_s: Sequence[float], values: Sequence[float], seconds: float, percents: Sequence[float], steps: int = 60
) -> list[tuple[float, list[float]]]:
    """(middle of a step, its percentiles) for the steps in which there are values."""
    t, v = np.asarray(times_s, np.float64), np.asarray(values, np.float64)
    width = max(seconds, 1e-9) / steps
    index = np.clip((t / width).astype(int), 0, steps - 1) if len(t) else np.zeros(0, int)
    found = []
    for step in range(steps):
        here = v[index == step]
        if len(here):
            found.append((round((step + 0.5) * width, 2), [round(float(p), 3) for p in np.percentile(here, percents)]))
    return found
