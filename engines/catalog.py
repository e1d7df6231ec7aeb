"""The engines there are, by name. The only place that names concrete ones; each is imported when it is asked for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from engines.contract import LipSyncEngine
from engines.errors import EngineUnavailable

DEFAULT = "warp"


def _warp(**options: Any) -> LipSyncEngine:
    from engines.warp.engine import WarpEngine

    return WarpEngine(**options)


_MAKERS: dict[str, Callable[..., LipSyncEngine]] = {"warp": _warp}


def names() -> tuple[str, ...]:
    """Every engine that can be asked for, whether or not it can run here."""
    return tuple(_MAKERS)


def create(name: str, **options: Any) -> LipSyncEngine:
    """Make an engine. Raises EngineUnavailable where there is none of this name or it cannot run here."""
    maker = _MAKERS.get(name)
    if maker is None:
        raise EngineUnavailable(name, "there is no engine of this name", f"Choose one of: {', '.join(names())}.")
    return maker(**options)
