"""What a soak ran on: facts for the report."""

from __future__ import annotations

import os
import platform
from importlib import metadata
from pathlib import Path

PACKAGES = ("liveanchor", "aiortc", "aiohttp", "av", "numpy")


def facts() -> dict[str, str | float]:
    """JSON-ready; what the system does not tell is left out."""
    found: dict[str, str | float] = {
        "system": f"{platform.system()} {platform.release()}",
        "machine": platform.machine(),
        "python": platform.python_version(),
        "cpus": float(os.cpu_count() or 0),
    }
    model = _first("/proc/cpuinfo", "model name")
    if model:
        found["cpu"] = model
    memory = _first("/proc/meminfo", "MemTotal")
    if memory:
        found["memory_gb"] = round(int(memory.split()[0]) / 1e6, 1)
    for name in PACKAGES:
        found[name] = metadata.version(name)
    return found


def load_average() -> float | None:
    """Of the last minute; None where the system does not tell."""
    return round(os.getloadavg()[0], 2) if hasattr(os, "getloadavg") else None


def _first(path: str, name: str) -> str | None:
    try:
        lines = Path(path).read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return None
    return next((line.partition(":")[2].strip() for line in lines if line.startswith(name)), None)
