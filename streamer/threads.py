"""The server's threads, and which runs first on a busy machine: the event loop before those that render, those before
what can wait."""

from __future__ import annotations

import os
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

FRAMES = 5
"""Niceness of threads that render and encode: a frame has tens of milliseconds, a packet on the loop has none."""
ERRANDS = 10
"""Niceness of what nobody watches live: precompilation, films, recordings."""


def give_way(niceness: int) -> None:
    """Lower the calling thread's priority, for good. Where threads have none of their own (not Linux): nothing."""
    if sys.platform != "linux":
        return
    thread = threading.get_native_id()
    os.setpriority(os.PRIO_PROCESS, thread, max(niceness, os.getpriority(os.PRIO_PROCESS, thread)))


def one_thread(name: str, niceness: int | None = None) -> ThreadPoolExecutor:
    """An executor of one thread that is there from now on: whoever comes first waits for none, and one more after a
    visit is a leak. niceness: as for `give_way`; None: the thread gives way to nobody."""
    executor = ThreadPoolExecutor(1, name) if niceness is None else ThreadPoolExecutor(1, name, give_way, (niceness,))
    executor.submit(bool)
    return executor
