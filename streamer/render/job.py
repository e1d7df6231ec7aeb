"""Renders a take to a file: plan, keyframes, encode, inspect; goes on where an earlier run stopped; writes a report."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from streamer.clock import Clock
from streamer.errors import ConfigError
from streamer.graphics.badge import Badge
from streamer.media import FPS, FRAME_SAMPLES, S16
from streamer.render.encode import container_of, encoding
from streamer.render.inspection import inspect
from streamer.render.progress import Progress, Stopwatch
from streamer.render.sound import fitted, voiced_frames
from streamer.render.take import U8, Take
from streamer.render.work import WorkFolder, digest

REPORT_VERSION = 1
_SUMMED = "counts"


@dataclass(frozen=True, slots=True, eq=False)
class Order:
    """What to render, and where to."""

    out: Path
    sound: S16 | None
    """(n,) s16 at 48 kHz; None is silence."""
    about: dict[str, Any]
    """Plain values that make this render what it is: for the report, and to know it again."""
    files: list[Path] = field(default_factory=list)
    """Files whose contents make it what it is."""
    fresh: bool = False
    """Begin anew though an earlier run left something."""
    keep_work: bool = False
    badge: Badge | None = None
    """Laid over the finished frames: with another one, what an earlier run left is gone on with."""


class RenderJob:
    """One render. `run` may be interrupted at any time; a new job with the same order goes on."""

    def __init__(self, take: Take, order: Order, clock: Clock, listen: Callable[[Progress], None]) -> None:
        container_of(order.out)
        if order.out.is_dir():
            raise ConfigError(str(order.out), "it is a folder; name a file")
        if any(order.out.exists() and order.out.samefile(path) for path in order.files):
            raise ConfigError(str(order.out), "it would be written over what it is made of; name another file")
        self._take = take
        self._order = order
        self._watch = Stopwatch(clock, listen)
        self._work = WorkFolder(order.out.with_name(order.out.name + ".work"), digest(order.about, order.files))
        self._before: dict[str, Any] = {}
        self._last_key = -1

    def run(self) -> dict[str, Any]:
        """Render; returns the report, which also lies beside the file as OUT.json.

        Raises what the engine raises, and ConfigError where something cannot be written; what is done is kept.
        """
        try:
            return self._run()
        except OSError as error:
            where = str(error.filename or self._order.out)
            raise ConfigError(where, f"it cannot be written ({error.strerror or error})") from error

    def _run(self) -> dict[str, Any]:
        self._order.out.parent.mkdir(parents=True, exist_ok=True)
        resumed = self._work.open(fresh=self._order.fresh)
        self._plan()
        keys = self._keyframes()
        self._encode(keys)
        self._watch.begin("inspect", 1)
        inspection = inspect(self._order.out)
        self._watch.at(1, 1)
        report = self._report(keys, inspection.as_json(), resumed=resumed)
        path = self._order.out.with_name(self._order.out.name + ".json")
        path.write_text(json.dumps(report, indent=2) + "\n", "utf-8")
        if not self._order.keep_work:
            self._work.clear()
        return report

    def _plan(self) -> None:
        kept = self._work.plan()
        if kept is not None:
            self._take.restore(kept[0])
            self._before, self._last_key = self._work.account() or (kept[1], -1)
            return
        self._watch.begin("motion", 1)
        self._take.plan(lambda stage, done, total: self._watch.at(done, total))
        self._work.save_plan(self._take.planned(), self._take.account())

    def _keyframes(self) -> list[int]:
        keys = self._take.keyframes()
        done = 0
        while done < len(keys) and keys[done] <= self._last_key:
            picture = self._work.key(keys[done])
            if picture is None:
                break
            self._take.accept(keys[done], picture)
            done += 1
        self._watch.begin("keyframes", len(keys), done)
        for position in range(done, len(keys)):
            picture = self._take.key(keys[position])
            self._work.save_key(keys[position], picture, self._account())
            self._watch.at(position + 1, len(keys))
        return keys

    def _encode(self, keys: list[int]) -> None:
        count = self._take.frame_count
        sound = fitted(self._order.sound if self._order.sound is not None else np.zeros(0, np.int16), count)
        width, height = self._take.size_px
        self._watch.begin("encode", count)
        with encoding(self._order.out, width, height, self._order.badge) as encoder:
            before = (keys[0], self._kept(keys[0]))
            position, after = 0, before
            for index in range(count):
                if index > after[0]:
                    position += 1
                    before, after = after, (keys[position], self._kept(keys[position]))
                picture = self._take.frame(index, before, after)
                encoder.add(picture, sound[index * FRAME_SAMPLES : (index + 1) * FRAME_SAMPLES])
                self._watch.at(index + 1, count)
        self._take.close_clip(voiced_frames(sound, count))

    def _kept(self, index: int) -> U8:
        picture = self._work.key(index)
        return picture if picture is not None else self._take.key(index)

    def _account(self) -> dict[str, Any]:
        """This run's account with that of the runs before it."""
        own, before = self._take.account(), self._before
        if not before:
            return own
        counts = {k: v + before.get(_SUMMED, {}).get(k, 0) for k, v in own[_SUMMED].items()}
        return own | {_SUMMED: counts, "findings": [*before.get("findings", []), *own["findings"]]}

    def _report(self, keys: list[int], inspection: dict[str, Any], *, resumed: bool) -> dict[str, Any]:
        account, frames = self._account(), self._take.frame_count
        seconds = {stage: round(value, 3) for stage, value in self._watch.seconds.items()}
        total = sum(self._watch.seconds.values())
        findings: list[dict[str, Any]] = account.pop("findings")
        reasons = sorted({f["reason"] for f in findings})
        return {
            "version": REPORT_VERSION,
            "engine": self._take.name,
            "output": self._order.out.name,
            "frames": frames,
            "fps": FPS,
            "seconds": round(frames / FPS, 3),
            "size_px": list(self._take.size_px),
            "keyframes": len(keys),
            **account,
            "findings_by_reason": {r: sum(f["reason"] == r for f in findings) for r in reasons},
            "findings": findings,
            "stages_s": seconds,
            "elapsed_s": round(total, 3),
            "times_real_time": round(total / (frames / FPS), 3) if frames else None,
            "resumed": resumed,
            "inspection": inspection,
            "badge": self._order.badge.words if self._order.badge is not None else None,
            "order": self._order.about,
        }
