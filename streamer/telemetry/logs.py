"""Log lines leave by a thread of their own: whoever reads them may stall or be gone, and the event loop never waits."""

from __future__ import annotations

import logging
import os
import threading
from collections import deque

MOST_WAITING = 1000
"""Lines; beyond it they are lost, and counted."""
LEAVE_WITHIN_S = 1.0
"""How long the end waits for lines that nobody reads."""
_KNOWN = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime"}


class Line(logging.Formatter):
    """The event, and beside it its fields as name=value; a value cannot end the line and begin another."""

    def format(self, record: logging.LogRecord) -> str:
        said, *traceback = super().format(record).split("\n")
        fields = [f"{name}={_shown(value)}" for name, value in vars(record).items() if name not in _KNOWN]
        return "\n".join((" ".join((said, *fields)), *traceback))


def _shown(value: object) -> str:
    text = str(value)
    return text if text.isprintable() else repr(text)


class Scribe(logging.Handler):
    """Writes lines to a file descriptor. `emit` never waits; `close` waits a moment."""

    def __init__(self, descriptor: int) -> None:
        super().__init__()
        self.setFormatter(Line("%(levelname)s %(name)s %(message)s"))
        self._descriptor = descriptor
        self._lines: deque[str] = deque()
        self._news = threading.Condition()
        self._lost = 0
        self._closed = False
        # The descriptor and not the stream: a thread stuck in a stream keeps its lock when the interpreter ends.
        self._thread = threading.Thread(target=self._work, name="logs", daemon=True)
        self._thread.start()

    def emit(self, record: logging.LogRecord) -> None:
        line = self.format(record)
        with self._news:
            if len(self._lines) >= MOST_WAITING:
                self._lost += 1
                return
            self._lines.append(line)
            self._news.notify()

    def close(self) -> None:
        """What waits is written, if somebody reads it. Idempotent."""
        super().close()
        with self._news:
            self._closed = True
            self._news.notify()
        self._thread.join(LEAVE_WITHIN_S)

    def _work(self) -> None:
        """In the thread."""
        while (news := self._next()) is not None:
            line, lost = news
            said = f"WARNING {__name__} log_lines_lost count={lost}\n" if lost else ""
            if not self._write(f"{said}{line}\n".encode(errors="replace")):
                with self._news:
                    self._lost += lost + 1

    def _next(self) -> tuple[str, int] | None:
        """The next line, and how many were lost before; None once there will be none."""
        with self._news:
            while not self._lines and not self._closed:
                self._news.wait()
            lost, self._lost = self._lost, 0
            return (self._lines.popleft(), lost) if self._lines else None

    def _write(self, data: bytes) -> bool:
        """Whether all of it went out."""
        try:
            while data:
                data = data[os.write(self._descriptor, data) :]
        except OSError:
            return False
        return True
