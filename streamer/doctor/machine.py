"""Checks of the machine itself: Python, clock, disk, cores, GPU, sound devices, descriptors. Each returns a finding."""

from __future__ import annotations

import os
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
from itertools import pairwise
from pathlib import Path

from streamer.clock import NS_PER_MS, MonotonicClock, wall_clock_s
from streamer.doctor.finding import Finding, bad, good, warn

LEAST_FREE_GB = 1.0
LEAST_DESCRIPTORS = 1024
EARLIEST_S = 1_700_000_000
"""A wall clock before this was never set."""
SOUND_CARDS = Path("/proc/asound/cards")


def python() -> Finding:
    return good("python", f"{platform.python_version()}, {platform.system()} {platform.machine()}")


def cores() -> Finding:
    count = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    load = os.getloadavg()[0] if hasattr(os, "getloadavg") else 0.0
    found = f"{count} cores, load {load:.1f}"
    if load > count:
        return warn("cores", found, "something else keeps this machine busy: pictures will come late")
    if count < 2:
        return warn("cores", found, "two cores or more keep sound steady while pictures are encoded")
    return good("cores", found)


def clock() -> Finding:
    """Whether time flows evenly and the wall clock was set; sender reports carry it."""
    ticks = MonotonicClock()
    steps = [ticks.now_ns() for _ in range(2000)]
    if wall_clock_s() < EARLIEST_S:
        return bad("clock", "the wall clock was never set", "set it, for example with chrony or systemd-timesyncd")
    longest_ms = max(b - a for a, b in pairwise(steps)) / NS_PER_MS
    median_ns = statistics.median(b - a for a, b in pairwise(steps))
    found = f"monotonic, read in {median_ns:.0f} ns, longest pause {longest_ms:.1f} ms"
    if longest_ms > 40:
        return warn("clock", found, "the machine stood still for a frame: too busy, or a starved virtual machine")
    return good("clock", found)


def disk(folder: Path) -> Finding:
    """Whether avatars can be written where they are to lie."""
    place = folder
    while not place.exists():
        place = place.parent
    free_gb = shutil.disk_usage(place).free / 1e9
    try:
        with tempfile.NamedTemporaryFile(dir=place):
            pass
    except OSError as error:
        return bad("disk", f"{place} cannot be written: {error.strerror}", "choose another folder with --avatars")
    if free_gb < LEAST_FREE_GB:
        return warn("disk", f"{free_gb:.1f} GB free at {place}", "make room: an avatar takes 3 to 80 MB")
    return good("disk", f"{free_gb:.0f} GB free at {place}")


def descriptors() -> Finding:
    if sys.platform == "win32":
        return good("descriptors", "not limited on this system")
    import resource

    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < LEAST_DESCRIPTORS:
        return warn("descriptors", f"{soft} allowed", "raise the limit (ulimit -n 4096): a visitor takes four")
    return good("descriptors", f"{soft} allowed")


def gpu() -> Finding:
    """What the driver's own tool says; engines that need none do not care."""
    tool = shutil.which("nvidia-smi")
    none = "the engine warp needs none; for others install the NVIDIA driver"
    if tool is None:
        return warn("gpu", "no NVIDIA driver found", none)
    query = [tool, "--query-gpu=name,memory.total,driver_version", "--format=csv,noheader"]
    try:
        answer = subprocess.run(query, capture_output=True, text=True, timeout=10, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return warn("gpu", "nvidia-smi does not answer", none)
    if answer.returncode or not answer.stdout.strip():
        return warn("gpu", "nvidia-smi finds no GPU", none)
    return good("gpu", "; ".join(answer.stdout.strip().splitlines()))


def sound_devices() -> Finding:
    """Only a browser needs them, and its page says more; here it is what the system lists."""
    try:
        listed = SOUND_CARDS.read_text(encoding="utf-8", errors="replace")
    except OSError:
        listed = ""
    cards = [line.split("]:", 1)[1].strip() for line in listed.splitlines() if "]:" in line]
    if not cards:
        remedy = "a server needs none; on the machine with the microphone open /web/doctor.html"
        return warn("sound devices", "none listed by the system", remedy)
    return good("sound devices", ", ".join(cards))
