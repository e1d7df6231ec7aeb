"""`liveanchor engines export|verify|build` for MuseTalk: graphs, their proof, and TensorRT plans of them."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from engines.errors import EngineUnavailable

if TYPE_CHECKING:
    from engines.musetalk.stages import Networks

STAGES = ("unet", "decoder", "tiny")
BUCKETS = "1,2,4,8,16,32"


@dataclass(frozen=True, slots=True)
class Weights:
    """Where MuseTalk's networks come from: a folder of models, or made up, and then as small as they may be."""

    models: Path | None = None
    seeded: bool = False
    reduced: bool = False

    def networks(self, stage: str) -> Networks:
        """What a stage needs. Raises EngineUnavailable."""
        try:
            from engines.musetalk import weights
            from engines.musetalk.export import PARTS_OF
            from engines.musetalk.stages import FULL, REDUCED
        except ImportError as error:
            remedy = "Install the extra: pip install 'liveanchor[musetalk]'."
            raise EngineUnavailable("musetalk", f"it needs {error.name}", remedy) from error
        parts, tiny = PARTS_OF.get(stage, ()), stage == "tiny"
        if self.seeded:
            return weights.seeded(REDUCED if self.reduced else FULL, parts, tiny=tiny)
        if self.models is None:
            remedy = "Give --models DIR (see `liveanchor models pull musetalk`), or --seeded for made-up weights."
            raise EngineUnavailable("musetalk", "no weights were named", remedy)
        made = weights.load(self.models / "musetalk", parts)
        return replace(made, tiny=weights.load_tiny(self.models / weights.TINY_FILE)) if tiny else made


def export(stage: str, out: Path, precision: str, source: Weights) -> None:
    """Write a graph and its weights."""
    nets = source.networks(stage)
    from engines.musetalk import export as exporting

    exporting.export(stage, out, nets, precision)
    size = sum(part.stat().st_size for part in out.parent.glob(f"{out.name}*"))
    typer.echo(f"{out}: {stage} {precision}, {size / 1e6:.0f} MB; prove it: liveanchor engines verify {out}")


def verify(graph: Path, source: Weights, batches: Sequence[int], gate: float | None, *, as_json: bool) -> None:
    """Compare a graph with torch; exit 1 where it misses its gate. batches: none for the usual ones."""
    from engines.musetalk import verifying

    sizes = tuple(batches) or verifying.BATCHES
    demand = verifying.Demand(sizes, gate, threads=os.cpu_count() or 1)
    finding = verifying.verify(graph, source.networks, demand)
    if as_json:
        typer.echo(json.dumps(finding.as_json(), indent=2))
    else:
        for line in finding.lines():
            typer.echo(line)
    if not finding.passed:
        raise typer.Exit(1)


def is_ours(graph: Path) -> bool:
    """Whether `export` above made a graph."""
    try:
        from engines.musetalk.export import label_of
    except ImportError:
        return False
    return label_of(graph).get("engine") == "musetalk"


def build(
    graph: Annotated[Path, typer.Argument(help="ONNX file that `engines export` made.", exists=True, dir_okay=False)],
    backend: Annotated[str, typer.Option(help="tensorrt-rtx (needs no GPU to build) or tensorrt.")] = "tensorrt-rtx",
    plans: Annotated[Path | None, typer.Option(help="Folder of built plans.")] = None,
    buckets: Annotated[str, typer.Option(help="Batch sizes, one profile each.")] = BUCKETS,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")] = False,
) -> None:
    """Build a TensorRT plan of a graph, once: a second run finds it in the cache."""
    from engines.backends import plan_cache, tensorrt_api, tensorrt_build
    from engines.musetalk.artefacts import plan_key
    from engines.musetalk.export import contract_of, label_of

    label = label_of(graph)
    if label.get("engine") != "musetalk":
        raise EngineUnavailable(
            "musetalk", f"{graph.name} was not made by `liveanchor engines export`", "Export it first."
        )
    stage = label.get("stage", "")
    contract, sizes = contract_of(stage), _sizes(buckets)
    api = tensorrt_api.find(backend)
    key = plan_key(stage, plan_cache.graph_sha256(graph), api, label.get("precision", ""), sizes)
    cache = plan_cache.PlanCache(plans or graph.parent.parent / "plans")
    profiles = tensorrt_build.profiles(contract, sizes)
    stored = cache.ensure(key, lambda: tensorrt_build.build(api, graph, contract, profiles))
    found: dict[str, Any] = {**stored.manifest, "path": str(stored.path), "fresh": stored.fresh}
    if as_json:
        typer.echo(json.dumps(found, indent=2))
        return
    word = "built" if stored.fresh else "found in the cache"
    typer.echo(f"{stored.path}: {word}, {stored.manifest['plan_bytes'] / 1e6:.0f} MB, batches of {buckets}")


def _sizes(buckets: str) -> tuple[int, ...]:
    from streamer.errors import ConfigError

    sizes = tuple(sorted({int(word) for word in buckets.split(",") if word.strip().isdigit()}))
    if not sizes or sizes[0] < 1 or sizes[-1] > 32:
        raise ConfigError("--buckets", f"{buckets} is no list of sizes from 1 to 32, such as {BUCKETS}")
    return sizes
