"""`liveanchor serve` at the terminal: progress bar, URL, logs, exit."""

from __future__ import annotations

import asyncio
import ctypes
import logging
import sys

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn

from streamer.app import Announcements, serve
from streamer.config import Config
from streamer.errors import ConfigError
from streamer.telemetry.logs import Scribe


class Terminal:
    """Shows how far preparation is, then where the page is."""

    def __init__(self, *, print_url: bool) -> None:
        self._print_url = print_url
        self._console = Console(stderr=True, quiet=print_url)
        self._progress = Progress(
            TextColumn("preparing {task.fields[avatar]:<10}"), BarColumn(), TextColumn("{task.percentage:>3.0f} %"),
            console=self._console, transient=True, auto_refresh=False,
        )  # fmt: skip
        self._tasks: dict[str, TaskID] = {}

    def on_progress(self, avatar_id: str, done: float) -> None:
        """Called from the preparing thread, which draws too: a thread of rich's own would outlive the bars."""
        if not self._tasks:
            self._progress.start()
        if avatar_id not in self._tasks:
            self._tasks[avatar_id] = self._progress.add_task("", total=1.0, avatar=avatar_id)
        self._progress.update(self._tasks[avatar_id], completed=done, refresh=True)

    def on_ready(self, url: str) -> None:
        self._progress.stop()
        if self._print_url:
            sys.stdout.write(url + "\n")
            sys.stdout.flush()
            return
        self._console.print(f"liveanchor is live at [bold]{url}[/bold]  (Ctrl+C ends it)", highlight=False)


def port_range(text: str) -> tuple[int, int]:
    """'40000-40100' to numbers. Raises ConfigError."""
    low, _, high = text.partition("-")
    if not (low.isdigit() and high.isdigit()):
        raise ConfigError("--udp-ports", f"{text} is no range; write for example 40000-40100")
    return int(low), int(high)


STDERR = 2
"""Its file descriptor."""
M_TRIM_THRESHOLD, M_MMAP_THRESHOLD, M_ARENA_MAX = -1, -3, -8


def give_memory_back() -> None:
    """Have glibc return freed frames to the system; left alone it raises its threshold and keeps every peak."""
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):
        return  # another C library
    for option, value in ((M_MMAP_THRESHOLD, 1 << 20), (M_TRIM_THRESHOLD, 1 << 20), (M_ARENA_MAX, 4)):
        mallopt(option, value)


def log_handler() -> logging.Handler:
    """Writes to standard error as the process was given it, whatever wraps it in Python; where it has none, nowhere."""
    return logging.NullHandler() if sys.__stderr__ is None else Scribe(STDERR)


def run(config: Config, *, print_url: bool) -> None:
    """Serve until stopped."""
    give_memory_back()
    logging.basicConfig(level=logging.WARNING, handlers=[log_handler()])
    logging.getLogger("streamer").setLevel(logging.INFO)
    terminal = Terminal(print_url=print_url)
    announcements = Announcements(terminal.on_progress, terminal.on_ready)
    try:
        if sys.platform == "win32":
            asyncio.run(serve(config, announcements))
        else:
            import uvloop

            uvloop.run(serve(config, announcements))
    except BaseExceptionGroup as group:
        # A TaskGroup wraps what went wrong; the first of it is what a person can act on.
        raise group.exceptions[0] from group
