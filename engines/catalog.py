"""The engines there are, by name. The only place that names concrete ones; each is imported when it is asked for."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from avatars.precompile import Makers
from engines.contract import LipSyncEngine
from engines.errors import EngineUnavailable

if TYPE_CHECKING:
    from avatars.precompile import IdleAnimator

DEFAULT = "warp"
MODELS = Path("storage/models")
"""Where weights are looked for unless somebody says otherwise."""


def _warp(**options: Any) -> LipSyncEngine:
    from engines.warp.engine import WarpEngine

    return WarpEngine(**options)


def _liveportrait(**options: Any) -> LipSyncEngine:
    try:
        from engines.liveportrait.engine import open_engine
    except ImportError as error:
        remedy = "Install the extra: pip install 'liveanchor[liveportrait]'."
        raise EngineUnavailable("liveportrait", f"it needs {error.name}", remedy) from error
    return open_engine(**{"models": MODELS, **options})


def _contract_net(**options: Any) -> LipSyncEngine:
    from engines.contract_net.engine import ContractEngine

    return ContractEngine(**options)


def _musetalk(**options: Any) -> LipSyncEngine:
    engine: LipSyncEngine = _musetalk_opening().open_engine(**{"models": MODELS, **options})
    return engine


def _musetalk_opening() -> ModuleType:
    try:
        from engines.musetalk import opening
    except ImportError as error:
        remedy = "Install the extra: pip install 'liveanchor[musetalk]'."
        raise EngineUnavailable("musetalk", f"it needs {error.name}", remedy) from error
    return opening


_MAKERS: dict[str, Callable[..., LipSyncEngine]] = {
    "warp": _warp,
    "liveportrait": _liveportrait,
    "contract_net": _contract_net,
    "musetalk": _musetalk,
}
WEIGHTED = frozenset({"liveportrait", "musetalk"})
"""Engines that take `models`, the folder of weights."""
NO_LATENTS = frozenset({"warp", "liveportrait"})
"""Engines that are content with a packet without latents."""


def names() -> tuple[str, ...]:
    """Every engine that can be asked for, whether or not it can run here."""
    return tuple(_MAKERS)


def create(name: str, **options: Any) -> LipSyncEngine:
    """Make an engine. Raises EngineUnavailable where there is none of this name or it cannot run here."""
    maker = _MAKERS.get(name)
    if maker is None:
        raise EngineUnavailable(name, "there is no engine of this name", f"Choose one of: {', '.join(names())}.")
    return maker(**options)


def idle_animator(name: str, **options: Any) -> IdleAnimator:
    """What gives a still portrait a living idle loop. Options: models, device, seconds, seeded, reduced.

    Raises EngineUnavailable where there is none of this name or it cannot run here.
    """
    if name != "liveportrait":
        raise EngineUnavailable(name, "it makes no idle loops", "Choose liveportrait.")
    try:
        from engines.liveportrait.checkpoints import Weights
        from engines.liveportrait.idling import open_animator
    except ImportError as error:
        remedy = "Install the extra: pip install 'liveanchor[liveportrait]'."
        raise EngineUnavailable(name, f"it needs {error.name}", remedy) from error
    of_weights = {key: options.pop(key) for key in ("models", "seeded", "reduced") if key in options}
    return open_animator(Weights(**{"models": MODELS, **of_weights}), **options)


def makers(engine: LipSyncEngine) -> Makers | None:
    """What an engine brings to precompilation; None where it needs nothing of its own in packets."""
    found = getattr(engine, "makers", None)
    made = found() if callable(found) else None
    return made if isinstance(made, Makers) else None


def preparing(name: str, models: Path = MODELS, **options: Any) -> Makers:
    """What an engine brings to precompilation, with no more of it opened than that takes.

    Raises EngineUnavailable where there is none of this name or it cannot run here.
    """
    if name in NO_LATENTS:
        return Makers()
    if name == "musetalk":
        found: Makers = _musetalk_opening().open_makers(models, **options)
        return found
    return makers(serving(name, models, options)) or Makers()


def serving(name: str, models: Path, options: Mapping[str, Any] | None = None) -> LipSyncEngine:
    """The engine for a server whose weights lie in `models`, with its own options. Raises EngineUnavailable."""
    given = {"models": models} if name in WEIGHTED else {}
    try:
        return create(name, **given, **(options or {}))
    except TypeError as error:
        if not options:
            raise
        reason = f"it does not take these options ({error})"
        raise EngineUnavailable(name, reason, "See its page in the documents.") from error
