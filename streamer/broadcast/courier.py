"""Takes a film to an RTMP server, from a process of its own: libav holds the interpreter while it waits for a network.

The parent writes FLV into the child's stdin, the address first; what the child has to complain about is on its stderr.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import IO

import av

from streamer.errors import ConfigError

GIVE_UP_S = 10.0


class Pipe:
    """The child's stdin as a file that is only written."""

    def __init__(self, stdin: IO[bytes]) -> None:
        self._stdin = stdin

    def write(self, data: bytes) -> int:
        """Blocks while the child takes no more; raises BrokenPipeError once it is gone."""
        self._stdin.write(data)
        self._stdin.flush()
        return len(data)


@contextmanager
def courier(url: str) -> Iterator[Pipe]:
    """A way to an RTMP server. Raises ConfigError with the server's or the network's reason, never the address."""
    process = subprocess.Popen(
        [sys.executable, "-m", "streamer.broadcast.courier"],
        stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
    )  # fmt: skip
    assert process.stdin is not None
    assert process.stderr is not None
    broken = False
    try:
        process.stdin.write(url.encode() + b"\n")
        process.stdin.flush()
        yield Pipe(process.stdin)
    except (ConfigError, OSError):
        broken = True
    finally:
        with suppress(OSError):
            process.stdin.close()
        try:
            process.wait(GIVE_UP_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        reason = process.stderr.read(4096).decode("utf-8", "replace").strip()
        process.stderr.close()
    if broken or process.returncode:
        raise ConfigError(f"{url.split('://', 1)[0]}://…", reason.rpartition("\n")[2] or "the server took no more")


def carry() -> int:
    """The child: FLV from stdin to the address in its first line. Returns the exit code."""
    url = sys.stdin.buffer.readline().decode().strip()
    soon = {"probesize": "65536", "analyzeduration": "500000"}
    try:
        with (
            av.open(sys.stdin.buffer, "r", format="flv", options=soon, buffer_size=4096) as source,
            av.open(url, "w", format="flv") as target,
        ):
            streams = {stream.index: target.add_stream_from_template(stream) for stream in source.streams}
            target.start_encoding()
            for packet in source.demux():
                if packet.dts is not None:
                    packet.stream = streams[packet.stream.index]
                    target.mux(packet)
    except OSError as error:
        sys.stderr.write(f"cannot be reached or took no more ({error.strerror or type(error).__name__})\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(carry())
