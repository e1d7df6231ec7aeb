"""Many sources to packets, several at a time, with a bar for each and an account at the end."""

from __future__ import annotations

import re
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from avatars.bundled import bundled_portraits
from avatars.errors import AvatarError
from avatars.precompile import Makers
from avatars.store import AvatarStore
from avatars.workshop import Recipe, Workshop
from engines import catalog
from engines.errors import EngineOutput, EngineUnavailable
from streamer.clock import NS_PER_S, MonotonicClock, cpu_ns
from streamer.errors import ConfigError

PORTRAITS = Path("storage/portraits")
"""Looked into when no source is named, beside the portraits that come with the program."""
_SUFFIXES = {
    *(".png", ".jpg", ".jpeg", ".webp", ".avif", ".bmp", ".tif", ".tiff", ".gif"),
    *(".mp4", ".mov", ".m4v", ".webm", ".mkv", ".avi"),
}


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of one source."""

    avatar_id: str
    seconds: float
    fresh: bool = True
    grade: str = ""
    advice: tuple[str, ...] = ()
    error: str = ""


class Batch:
    """Runs sources through one workshop a thread. A failure is recorded, not raised: the others go on."""

    def __init__(self, avatars_dir: Path, recipe: Recipe, makers: Makers) -> None:
        self.done: list[Outcome] = []
        self.failed: list[Outcome] = []
        self.wall_s = 0.0
        self.cpu_s = 0.0
        self._store = AvatarStore(avatars_dir)
        self._recipe = recipe
        self._makers = makers
        self._local = threading.local()
        self._clock = MonotonicClock()

    def run(self, sources: Sequence[tuple[str, Path]], jobs: int) -> None:
        """Make all (id, file) pairs, `jobs` at a time."""
        wall_ns, cpu_start_ns = self._clock.now_ns(), cpu_ns()
        with progress_bar() as bars, ThreadPoolExecutor(jobs, thread_name_prefix="precompile") as pool:
            outcomes = list(pool.map(lambda pair: self._make(pair[0], pair[1], bars), sources))
        self.wall_s = (self._clock.now_ns() - wall_ns) / NS_PER_S
        self.cpu_s = (cpu_ns() - cpu_start_ns) / NS_PER_S
        self.done = [outcome for outcome in outcomes if not outcome.error]
        self.failed = [outcome for outcome in outcomes if outcome.error]

    def _make(self, avatar_id: str, source: Path, bars: Progress) -> Outcome:
        task = bars.add_task(avatar_id, total=1.0)
        start_ns = self._clock.now_ns()
        try:
            made = self._workshop().make(
                source, avatar_id, self._recipe, lambda done: bars.update(task, completed=done)
            )
        except (AvatarError, EngineOutput) as error:
            bars.update(task, description=f"{avatar_id}: failed")
            return Outcome(avatar_id, self._since_s(start_ns), error=str(error))
        report = made.info.get("report", {})
        advice = tuple(str(item["text"]) for item in report.get("advice", ()))
        return Outcome(avatar_id, self._since_s(start_ns), made.fresh, str(report.get("grade", "")), advice)

    def _workshop(self) -> Workshop:
        if not hasattr(self._local, "workshop"):
            self._local.workshop = Workshop(self._store, makers=self._makers)
        workshop: Workshop = self._local.workshop
        return workshop

    def _since_s(self, start_ns: int) -> float:
        return (self._clock.now_ns() - start_ns) / NS_PER_S


def makers_of(engine: str, models: Path = catalog.MODELS) -> Makers:
    """What an engine brings to precompilation. Raises EngineUnavailable saying what to install."""
    if engine not in catalog.names():
        raise EngineUnavailable(
            engine,
            "packets for it hold latents, which only its own encoder and weights can make",
            "Install liveanchor[musetalk] and its weights, or leave --engine away: such packets work with warp.",
        )
    return catalog.preparing(engine, models)


def find_sources(given: Sequence[Path], only: Sequence[str] | None) -> list[tuple[str, Path]]:
    """(id, file) of every source. Raises ConfigError where two have one id, or one of `only` is not there."""
    pairs = [(slug(path.stem), path) for item in given for path in _files_of(item)]
    if not given:
        pairs = [(portrait.id, portrait.path) for portrait in bundled_portraits()]
        pairs += [(slug(path.stem), path) for path in _files_of(PORTRAITS)] if PORTRAITS.is_dir() else []
    sources: dict[str, Path] = {}
    for avatar_id, path in pairs:
        if sources.setdefault(avatar_id, path) != path:
            raise ConfigError(str(path), f"another source is called {avatar_id} too: rename one")
    if only is not None:
        wanted = [name.strip() for name in only if name.strip()]
        missing = [name for name in wanted if name not in sources]
        if missing:
            raise ConfigError(
                "--specific", f"no source for {', '.join(missing)}; there are {', '.join(sources) or 'none'}"
            )
        sources = {name: sources[name] for name in wanted}
    if not sources:
        raise ConfigError("sources", "no pictures or clips there")
    return list(sources.items())


def slug(stem: str) -> str:
    """An avatar id out of a file's name."""
    return re.sub(r"[^a-z0-9_-]+", "-", stem.lower()).strip("-_")[:64] or "avatar"


def progress_bar() -> Progress:
    """Bars on standard error, so that standard output stays clean."""
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.percentage:>3.0f} %"),
        TimeElapsedColumn(),
    )
    return Progress(*columns, console=Console(stderr=True), transient=True)


def _files_of(path: Path) -> list[Path]:
    if not path.is_dir():
        return [path]
    return sorted(p for p in path.iterdir() if p.suffix.lower() in _SUFFIXES and p.is_file())
