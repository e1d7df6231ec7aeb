"""Making avatars while the server runs: uploads wait in line and are precompiled one at a time."""

from __future__ import annotations

import asyncio
import secrets
import shutil
import tempfile
from collections import OrderedDict
from collections.abc import Callable, Iterator
from concurrent.futures import Executor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from avatars.errors import AvatarError
from avatars.precompile import Makers
from avatars.store import AvatarStore, check_new_id
from avatars.workshop import Workshop
from streamer.channel import Channel, WhenFull
from streamer.errors import MakingFull

KEPT_JOBS = 64
WAITING_JOBS = 8


@dataclass(slots=True)
class MakingJob:
    """One upload on its way to an avatar."""

    job_id: str
    avatar_id: str
    source: Path
    """In a folder of its own, which goes when the job ends."""
    notify: str | None = None
    state: Literal["waiting", "running", "ready", "failed"] = "waiting"
    progress: float = 0.0
    error: str | None = None
    report: dict[str, Any] = field(default_factory=dict)


class Making:
    """The line of jobs. `run` must be running; the work itself happens in an executor of its own."""

    def __init__(
        self,
        store: AvatarStore,
        executor: Executor,
        on_end: Callable[[MakingJob], object] = lambda job: None,
        makers: Makers | None = None,
    ) -> None:
        """on_end is called on the loop and must only deposit; makers: what the engine needs in its packets."""
        self._store = store
        self._executor = executor
        self._on_end = on_end
        self.makers = makers
        self._jobs: OrderedDict[str, MakingJob] = OrderedDict()
        self._line: Channel[MakingJob] = Channel("making", WAITING_JOBS, WhenFull.DROP_NEWEST)
        self._arriving = 0

    @contextmanager
    def arriving(self) -> Iterator[Path]:
        """A new private folder for an upload on its way; it goes with the block unless `submit` took it over.

        Raises MakingFull: what arrives takes disk as what waits does.
        """
        if self._arriving + len(self._line) >= WAITING_JOBS:
            raise MakingFull(WAITING_JOBS)
        folder = Path(tempfile.mkdtemp(prefix="liveanchor-upload-"))
        self._arriving += 1
        try:
            yield folder
        finally:
            self._arriving -= 1
            if not any(job.source.parent == folder for job in self._jobs.values()):
                self.discard(folder)

    def discard(self, folder: Path) -> None:
        shutil.rmtree(folder, ignore_errors=True)

    def submit(self, avatar_id: str, source: Path, notify: str | None = None) -> MakingJob:
        """Put an uploaded file in line. Raises AvatarIdInvalid, MakingFull."""
        job = MakingJob(secrets.token_hex(8), check_new_id(avatar_id), source, notify)
        if not self._line.put_nowait(job):
            raise MakingFull(WAITING_JOBS)
        self.forget(avatar_id)
        self._jobs[job.job_id] = job
        finished = [old for old in self._jobs.values() if old.state in ("ready", "failed")]
        for old in finished[: max(0, len(self._jobs) - KEPT_JOBS)]:
            del self._jobs[old.job_id]
        return job

    def get(self, job_id: str) -> MakingJob | None:
        return self._jobs.get(job_id)

    def unfinished(self) -> list[MakingJob]:
        """Jobs that wait or run, and the last failures: what a gallery shows beside finished avatars."""
        return [job for job in self._jobs.values() if job.state != "ready"]

    def forget(self, avatar_id: str) -> bool:
        """Drop the failures of an avatar, so that no gallery shows them; whether there were any."""
        failed = [job.job_id for job in self._jobs.values() if job.avatar_id == avatar_id and job.state == "failed"]
        for job_id in failed:
            del self._jobs[job_id]
        return bool(failed)

    async def run(self) -> None:
        """Work through the line for ever."""
        loop = asyncio.get_running_loop()
        while True:
            job = await self._line.get()
            job.state = "running"
            try:
                await loop.run_in_executor(self._executor, self._make, job)
            except AvatarError as error:
                job.state, job.error = "failed", str(error)
            finally:
                self.discard(job.source.parent)
            self._on_end(job)

    def _make(self, job: MakingJob) -> None:
        def note(done: float) -> None:
            job.progress = round(done, 3)

        made = Workshop(self._store, makers=self.makers).make(job.source, job.avatar_id, progress=note)
        report = made.info.get("report")
        job.report = report if isinstance(report, dict) else {}
        job.progress, job.state = 1.0, "ready"
