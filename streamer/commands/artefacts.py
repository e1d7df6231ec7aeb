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

    def check(self) -> None:
        """Raises EngineUnavailable where what they need is not installed."""
        try:
            import engines.musetalk.export
            import engines.musetalk.weights  # noqa: F401
        except ImportError as error:
            raise _uninstalled(error) from error

    def networks(self, stage: str) -> Networks:
        """What a stage needs. Raises EngineUnavailable."""
        self.check()
        from engines.musetalk import weights
        from engines.musetalk.export import PARTS_OF
        from engines.musetalk.stages import FULL, REDUCED

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
    graph: Annotated[
        Path | None,
        typer.Argument(
            help="ONNX file of `engines export`. Without one all of MuseTalk is made ready from its weights: graphs "
            "exported and compared with torch, plans built, each where it is not there yet.",
            exists=True,
            dir_okay=False,
        ),
    ] = None,
    models: Annotated[Path, typer.Option(help="Folder of weights.")] = Path("storage/models"),
    backend: Annotated[str, typer.Option(help="tensorrt-rtx (needs no GPU to build) or tensorrt.")] = "tensorrt-rtx",
    precision: Annotated[str, typer.Option(help="fp16 or fp32, where no graph is named.")] = "fp16",
    decoder: Annotated[str, typer.Option(help="full or tiny, where no graph is named.")] = "full",
    gate: Annotated[float | None, typer.Option(help="As for `engines verify`.", min=0.0)] = None,
    plans: Annotated[Path | None, typer.Option(help="Folder of built plans; beside the graphs' folder.")] = None,
    buckets: Annotated[str, typer.Option(help="Batch sizes, one profile each.")] = BUCKETS,
    seeded: Annotated[bool, typer.Option(help="Made-up weights: numbers, no faces.")] = False,
    reduced: Annotated[bool, typer.Option(help="Small widths; with --seeded only.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")] = False,
) -> None:
    """Build TensorRT plans, once: a second run finds them in the cache."""
    from engines.backends import plan_cache, tensorrt_api

    sizes, api = _sizes(buckets), tensorrt_api.find(backend)
    if precision not in ("fp16", "fp32") or decoder not in ("full", "tiny"):
        raise EngineUnavailable(
            "musetalk", f"there is no {precision} {decoder} decoder", "--precision fp16|fp32, --decoder full|tiny."
        )
    source = Weights(None if seeded else models, seeded, reduced)
    stages = {"unet": None, "tiny" if decoder == "tiny" else "decoder": None} if graph is None else _labelled(graph)
    source.check()
    from engines.musetalk.artefacts import Artefacts, Proven
    from engines.musetalk.building import Bench
    from engines.musetalk.verifying import Demand

    folder = models / "musetalk" / "onnx" if graph is None else graph.parent
    cache = plan_cache.PlanCache(plans or folder.parent / "plans")
    demand = Demand(gate=gate, threads=os.cpu_count() or 1)
    bench = Bench(Artefacts(folder), cache, source.networks, demand, lambda line: typer.echo(line, err=True))
    found: list[dict[str, Any]] = []
    for stage, given in stages.items():
        kept = precision if given is None else given
        proven = bench.proven(stage, kept) if graph is None else Proven(graph, plan_cache.graph_sha256(graph))
        stored = bench.plan(proven, stage, kept, api, sizes)
        found.append({**stored.manifest, "path": str(stored.path), "fresh": stored.fresh})
    if as_json:
        typer.echo(json.dumps({"plans": found} if graph is None else found[0], indent=2))
        return
    for plan in found:
        word = "built" if plan["fresh"] else "found in the cache"
        typer.echo(f"{plan['path']}: {word}, {plan['plan_bytes'] / 1e6:.0f} MB, batches of {buckets}")


def _labelled(graph: Path) -> dict[str, str | None]:
    """Stage and precision of a graph. Raises EngineUnavailable where `export` above did not make it."""
    try:
        from engines.musetalk.export import label_of
    except ImportError as error:
        raise _uninstalled(error) from error
    label = label_of(graph)
    if label.get("engine") != "musetalk":
        raise EngineUnavailable(
            "musetalk", f"{graph.name} was not made by `liveanchor engines export`", "Export it first."
        )
    return {label.get("stage", ""): label.get("precision", "")}


def _uninstalled(error: ImportError) -> EngineUnavailable:
    return EngineUnavailable(
        "musetalk", f"it needs {error.name}", "Install the extra: pip install 'liveanchor[musetalk]'."
    )


def _sizes(buckets: str) -> tuple[int, ...]:
    from streamer.errors import ConfigError

    sizes = tuple(sorted({int(word) for word in buckets.split(",") if word.strip().isdigit()}))
    if not sizes or sizes[0] < 1 or sizes[-1] > 32:
        raise ConfigError("--buckets", f"{buckets} is no list of sizes from 1 to 32, such as {BUCKETS}")
    return sizes
