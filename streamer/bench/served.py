"""A server under test, for benches and tests: in a process of its own, read from outside, or on the caller's loop."""

from __future__ import annotations

import asyncio
import os
import select
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Collection, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from streamer.app import Announcements, Server
from streamer.errors import StreamerError

READY_WITHIN_S = 120.0
"""Preparing the bundled avatars on a slow, busy machine."""
STOPPED_WITHIN_S = 20.0
_TAIL = 2_000


@dataclass(frozen=True, slots=True)
class Reading:
    """What a process holds now, as Linux tells it."""

    cpu_s: float
    """User and system time of all its threads since its start."""
    rss_bytes: int
    threads: int
    descriptors: int


class Served:
    """A running server: where it answers, and what it costs."""

    def __init__(self, process: subprocess.Popen[bytes], url: str) -> None:
        self.url = url
        """Ends with a slash."""
        self._process = process
        self._proc = Path("/proc") / str(process.pid)

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def running(self) -> bool:
        return self._process.poll() is None

    @property
    def exit_code(self) -> int | None:
        """None while it runs."""
        return self._process.poll()

    def read(self) -> Reading:
        """Raises OSError where the process is gone or the system has no /proc."""
        # The name in parentheses may hold blanks; fields count from behind it, utime is the 14th of the whole line.
        fields = (self._proc / "stat").read_text().rpartition(")")[2].split()
        ticks = int(fields[11]) + int(fields[12])
        pages = int((self._proc / "statm").read_text().split()[1])
        return Reading(
            cpu_s=ticks / os.sysconf("SC_CLK_TCK"),
            rss_bytes=pages * os.sysconf("SC_PAGE_SIZE"),
            threads=int(fields[17]),
            descriptors=sum(1 for _ in (self._proc / "fd").iterdir()),
        )

    def pin(self, cores: Collection[int]) -> None:
        """Keep all its threads on these cores; a system that cannot is left alone."""
        if cores and hasattr(os, "sched_setaffinity"):
            for task in (self._proc / "task").iterdir():
                with suppress(ProcessLookupError):  # a thread that has just ended
                    os.sched_setaffinity(int(task.name), cores)


@contextmanager
def served(
    command: Sequence[str], environment: Mapping[str, str] | None = None, log_to: int | None = None
) -> Iterator[Served]:
    """Run a command whose last word on stdout is its URL, until the block ends. Raises StreamerError with its log.

    environment: beside the caller's own; log_to: a descriptor that gets the log instead.
    """
    with tempfile.TemporaryFile() as log:
        process = subprocess.Popen(
            list(command),
            stdout=subprocess.PIPE,
            stderr=log if log_to is None else log_to,
            env={**os.environ, **(environment or {})},
        )
        try:
            yield Served(process, _url(process))
        except _NotReady as error:
            log.seek(0)
            tail = log.read().decode(errors="replace")[-_TAIL:]
            raise StreamerError(f"{' '.join(command)}: {error}\n{tail}") from None
        finally:
            _stop(process)


def serve_command(avatars_dir: Path, arguments: Sequence[str] = ()) -> list[str]:
    """`liveanchor serve` on a free port, with this interpreter; `arguments` are further flags."""
    return [
        sys.executable, "-m", "streamer.cli", "serve", "--port", "0", "--print-url",
        "--avatars", str(avatars_dir), *arguments,
    ]  # fmt: skip


class _NotReady(Exception):
    """The process ended or stayed silent."""


def _url(process: subprocess.Popen[bytes]) -> str:
    assert process.stdout is not None
    os.set_blocking(process.stdout.fileno(), False)
    heard = b""
    while b"\n" not in heard:
        ready, _, _ = select.select([process.stdout], [], [], READY_WITHIN_S)
        if not ready:
            raise _NotReady(f"no URL within {READY_WITHIN_S:.0f} s")
        piece = process.stdout.read()
        if not piece:
            raise _NotReady("ended before it was ready")
        heard += piece
    return heard.decode().strip().rpartition("\n")[2]


def _stop(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(STOPPED_WITHIN_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    assert process.stdout is not None
    process.stdout.close()


@asynccontextmanager
async def served_here(server: Server) -> AsyncIterator[str]:
    """Run a server on this loop until the block ends; gives its URL, which ends with a slash."""
    stop = asyncio.Event()
    ready: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    async with asyncio.TaskGroup() as group:
        group.create_task(server.run(Announcements(lambda avatar, done: None, ready.set_result), stop), name="server")
        yield await ready
        stop.set()
