"""Every engine's stage contracts by name, each imported when it is asked for; and the table that documents print."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from engines.contract import TensorContract
from engines.errors import EngineUnavailable
from engines.stage import StageContract


def _liveportrait() -> tuple[StageContract, ...]:
    from engines.liveportrait.portrait import FULL

    return FULL.contracts()


def _joyvasa() -> tuple[StageContract, ...]:
    from engines.liveportrait.joyvasa.contracts import PUBLISHED

    return PUBLISHED


def _contract_net() -> tuple[StageContract, ...]:
    from engines.contract_net.contracts import CONTRACTS

    return CONTRACTS


def _musetalk() -> tuple[StageContract, ...]:
    from engines.musetalk.stages import CONTRACTS

    return CONTRACTS


_SOURCES: dict[str, Callable[[], tuple[StageContract, ...]]] = {
    "liveportrait": _liveportrait,
    "joyvasa": _joyvasa,
    "musetalk": _musetalk,
    "contract_net": _contract_net,
}


def names() -> tuple[str, ...]:
    """Engines that have contracts."""
    return tuple(_SOURCES)


def contracts_of(engine: str) -> tuple[StageContract, ...]:
    """An engine's stages in the order in which data meets them. Raises EngineUnavailable."""
    source = _SOURCES.get(engine)
    if source is None:
        raise EngineUnavailable(engine, "it has no stage contracts", f"Choose one of: {', '.join(names())}.")
    try:
        return source()
    except ImportError as error:
        remedy = f"Install the extra: pip install 'liveanchor[{engine}]'."
        raise EngineUnavailable(engine, f"its stages need {error.name}", remedy) from error


def table(stages: Sequence[StageContract]) -> Iterator[str]:
    """Markdown, one row a tensor."""
    yield "| stage | | tensor | shape | type | axes | range | owner |"
    yield "|---|---|---|---|---|---|---|---|"
    for stage in stages:
        for direction, tensors in (("in", stage.inputs), ("out", stage.outputs)):
            for tensor in tensors:
                yield _row(stage.stage, direction, tensor)


def _row(stage: str, direction: str, tensor: TensorContract) -> str:
    shape = ", ".join(str(size) for size in tensor.shape)
    cells = (stage, direction, tensor.name, f"[{shape}]", tensor.dtype, tensor.axes, tensor.value_range, tensor.owner)
    return "| " + " | ".join(cells) + " |"
