"""CPU time of this process by thread: what drawing, rendering and coding cost each. Linux; empty elsewhere."""

from __future__ import annotations

import os
import re
import threading
from collections import defaultdict
from contextlib import suppress
from pathlib import Path

TASKS = Path("/proc/self/task")
MAIN = "loop"
"""The event loop's thread: network, signalling, drawing and mixing of rooms."""


def thread_cpu_s() -> dict[str, float]:
    """Seconds by the thread's name; threads of a pool together."""
    found: defaultdict[str, float] = defaultdict(float)
    if not TASKS.is_dir():
        return {}
    ticks = os.sysconf("SC_CLK_TCK")
    for thread in threading.enumerate():
        name = MAIN if thread is threading.main_thread() else re.sub(r"_\d+$", "", thread.name)
        with suppress(OSError, IndexError, ValueError):  # it has just ended
            fields = (TASKS / str(thread.native_id) / "stat").read_text().rpartition(")")[2].split()
            found[name] += (int(fields[11]) + int(fields[12])) / ticks
    return dict(found)
