"""A render's progress at the terminal: the stage, what is done, what it took and what is left."""

from __future__ import annotations

from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TaskID, TextColumn
from rich.progress import Progress as Bars

from streamer.render.progress import Progress


class Showing:
    """One line a stage, on standard error."""

    def __init__(self, *, quiet: bool) -> None:
        self._bars = Bars(
            TextColumn("{task.description:<10}"), BarColumn(), MofNCompleteColumn(), TextColumn("{task.fields[times]}"),
            console=Console(stderr=True, quiet=quiet),
        )  # fmt: skip
        self._tasks: dict[str, TaskID] = {}

    def __enter__(self) -> Showing:
        self._bars.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bars.stop()

    def __call__(self, progress: Progress) -> None:
        """Show where a render is."""
        times = f"{_clock(progress.elapsed_s)} elapsed"
        if progress.remaining_s is not None and progress.done < progress.total:
            times += f", about {_clock(progress.remaining_s)} left"
        if progress.stage not in self._tasks:
            self._tasks[progress.stage] = self._bars.add_task(progress.stage, total=progress.total, times=times)
        self._bars.update(self._tasks[progress.stage], completed=progress.done, total=progress.total, times=times)


def _clock(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes}:{rest:02d}"
