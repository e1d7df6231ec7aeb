"""The gallery: which avatars a server offers and how far the preparation of the bundled ones is."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from avatars.bundled import BundledPortrait, bundled_portraits
from avatars.errors import AvatarError, PacketMissing
from avatars.folder import FileIdentity
from avatars.precompile import FaceSettings
from avatars.store import AvatarEntry, AvatarStore
from streamer.http.wire import AvatarView
from streamer.making import Making


class Gallery:
    """A view of the store with what is still being made. `prepare` runs in an executor, `list` on the event loop."""

    def __init__(self, store: AvatarStore, making: Making) -> None:
        self._store = store
        self._making = making
        self._lock = threading.Lock()
        self._progress: dict[str, float] = {}
        self._failed: dict[str, str] = {}
        self._titles = {p.id: p.title for p in bundled_portraits()}

    def prepare(self, on_progress: Callable[[str, float], None]) -> None:
        """Prepare the first of the bundled ones where they are missing; a failure is told, not raised."""

        def note(avatar_id: str, done: float) -> None:
            with self._lock:
                self._progress[avatar_id] = done
                if done >= 1.0:
                    del self._progress[avatar_id]
            on_progress(avatar_id, done)

        try:
            self._store.ensure_bundled(note, self._making.makers)
        except AvatarError as error:
            with self._lock:
                self._failed |= dict.fromkeys(self._progress, str(error))
                self._progress.clear()

    def list(self) -> list[AvatarView]:
        """Every avatar, bundled ones first in their own order."""
        with self._lock:
            progress, failed = dict(self._progress), dict(self._failed)
        views = {entry.avatar_id: self._ready(entry) for entry in self._store.list()}
        for job in self._making.unfinished():
            views.setdefault(job.avatar_id, self._unready(job.avatar_id, job.progress, job.error))
        for avatar_id, done in progress.items():
            views.setdefault(avatar_id, self._unready(avatar_id, done, None))
        for avatar_id, error in failed.items():
            views.setdefault(avatar_id, self._unready(avatar_id, 0.0, error))
        for portrait in bundled_portraits():
            if portrait.id not in views and self._store.unmade(portrait.id) is not None:
                views[portrait.id] = self._offered(portrait)
        order = list(self._titles)
        return sorted(views.values(), key=lambda v: (order.index(v.id) if v.id in order else len(order), v.id))

    def version(self, avatar_id: str) -> FileIdentity:
        """Tells one making of an avatar from the next. Raises PacketMissing, PacketInvalid."""
        return self._store.bundled_version(avatar_id)

    def report(self, view: AvatarView) -> dict[str, Any]:
        """What precompilation found: grade, face size, pose, advice; empty where nobody looked."""
        if view.state != "ready":
            return {}
        try:
            found = self._store.info(view.id).get("report")
        except PacketMissing:
            return {}  # a bundled one that nobody asked for yet
        return found if isinstance(found, dict) else {}

    def thumbnail(self, avatar_id: str, side_px: int) -> bytes:
        """JPEG, at most `side_px` a side. Raises PacketMissing."""
        return self._store.thumbnail(avatar_id, side_px)

    def _ready(self, entry: AvatarEntry) -> AvatarView:
        return AvatarView(
            id=entry.avatar_id,
            title=self._titles.get(entry.avatar_id, entry.title),
            width=entry.width,
            height=entry.height,
            cycle_frames=entry.cycle_frames,
            state="ready",
            progress=1.0,
            thumbnail=_thumbnail(entry.avatar_id),
        )

    def _offered(self, portrait: BundledPortrait) -> AvatarView:
        """A bundled one that is made as soon as somebody asks for it: as good as ready."""
        return AvatarView(
            id=portrait.id,
            title=portrait.title,
            width=portrait.side_px,
            height=portrait.side_px,
            cycle_frames=FaceSettings().cycle_frames,
            state="ready",
            progress=1.0,
            thumbnail=_thumbnail(portrait.id),
        )

    def _unready(self, avatar_id: str, done: float, error: str | None) -> AvatarView:
        return AvatarView(
            id=avatar_id,
            title=self._titles.get(avatar_id, avatar_id),
            width=0,
            height=0,
            cycle_frames=0,
            state="failed" if error else "preparing",
            progress=round(done, 2),
            thumbnail=_thumbnail(avatar_id),
            error=error,
        )


def _thumbnail(avatar_id: str) -> str:
    return f"/api/avatars/{avatar_id}/thumbnail"
