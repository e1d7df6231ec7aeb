"""`liveanchor engines audit|rewrite|verify|export|contracts`: look at graphs, change them, prove the change."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any

import typer

from streamer.commands import artefacts

Weights = Annotated[
    str | None,
    typer.Option(help="Of MuseTalk's torch side: a folder of models, seeded, or seeded-reduced; storage/models."),
]
Model = Annotated[Path, typer.Argument(help="ONNX file.", exists=True, dir_okay=False)]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")]


def add_to(engines: typer.Typer) -> None:
    """Mount the commands on `liveanchor engines`."""
    for command in (audit, rewrite, verify, export, artefacts.build, contracts):
        engines.command()(command)


def audit(model: Model, as_json: AsJson = False) -> None:
    """Kinds and ranks of nodes, volumes, and what each execution provider cannot run."""
    tools = _tools()
    found = tools.audit.audit(tools.model.read(model))
    _print(found.as_json(), found.lines(), as_json)


def rewrite(
    model: Model,
    out: Annotated[Path, typer.Argument(help="ONNX file to write.")],
    form: Annotated[
        str, typer.Option(help="auto, shared-xy, slices or gather. auto takes the cheapest that is proven the same.")
    ] = "auto",
    opset: Annotated[int, typer.Option(help="Opset of the result.", min=16, max=19)] = 18,
    limit_mib: Annotated[int, typer.Option(help="Largest tensor that a form may make, MiB.", min=1)] = 128,
    as_json: AsJson = False,
) -> None:
    """Replace 5-D GridSample by nodes that a browser's GPU runs; what cannot be proven is refused."""
    from streamer.errors import ConfigError

    tools = _tools()
    forms = {"auto": None} | {f.value: f for f in tools.forms.Form}
    if form not in forms:
        raise ConfigError("--form", f"{form} is none of {', '.join(forms)}")
    done = tools.rewrite.rewrite(tools.model.read(model), forms[form], opset, limit_mib * 2**20)
    tools.model.write(done.graph, out)
    choices = [
        {"node": c.node, "form": c.form, "reason": c.reason, "nodes": c.nodes_added, "bytes": c.intermediate_bytes}
        for c in done.choices
    ]
    summary = {"nodes_before": done.nodes_before, "nodes": len(done.graph.nodes), "rewritten": choices}
    _print(summary, done.lines(), as_json)


def verify(
    original: Model,
    changed: Annotated[
        Path | None, typer.Argument(help="The other one; none where ORIGINAL is a stage of MuseTalk.", exists=True)
    ] = None,
    reference: Annotated[
        Path | None,
        typer.Option(help="Numbers of the original network, .npz; by default ORIGINAL.reference.npz if it is there."),
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of the inputs where there is no reference.")] = 0,
    within: Annotated[float, typer.Option(help="How many times the floor is allowed.", min=0.0)] = 1.5,
    weights: Weights = None,
    batch: Annotated[
        list[int] | None,
        typer.Option(help="Batch size for a stage of MuseTalk, again for more; 1, 3 and 8.", min=1, max=32),
    ] = None,
    gate: Annotated[
        float | None,
        typer.Option(help="Largest error allowed a stage of MuseTalk, where its usual gate is too tight.", min=0.0),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Run fixed inputs through both, stage by stage: maximum, mean and 99.9th-percentile error against the floor.

    A stage of MuseTalk is compared with torch itself, at several batch sizes, and must keep to its gate.
    """
    from streamer.errors import ConfigError

    if changed is None:
        if not artefacts.is_ours(original):
            raise ConfigError("CHANGED", "name the graph to compare with")
        where = weights or ""
        models = None if where.startswith("seeded") else Path(where or "storage/models")
        source = artefacts.Weights(models, seeded=models is None, reduced=where == "seeded-reduced")
        artefacts.verify(original, source, batch or (), gate, as_json=as_json)
        return
    tools = _tools()
    beside = original.with_suffix(".reference.npz")
    found = reference or (beside if beside.is_file() else None)
    numbers = tools.verify.Reference.load(found) if found else None
    graphs = (tools.model.read(original), tools.model.read(changed))
    result = tools.verify.verify(*graphs, numbers, seed=seed, within=within)
    _print(result.as_json(), result.lines(), as_json)
    if not result.passed:
        raise typer.Exit(1)


def export(
    stage: Annotated[str, typer.Argument(help="A stage of `engines contracts`, or renderer: warping and generator.")],
    out: Annotated[Path, typer.Argument(help="ONNX file to write; its numbers go beside it.")],
    models: Annotated[Path | None, typer.Option(help="Folder with the published checkpoints.")] = None,
    seeded: Annotated[bool, typer.Option(help="Made-up weights: numbers, no faces.")] = False,
    reduced: Annotated[bool, typer.Option(help="Small widths; with --seeded only.")] = False,
    precision: Annotated[str, typer.Option(help="fp32 or fp16; MuseTalk's stages only.")] = "fp32",
) -> None:
    """Write a stage of MuseTalk (unet, decoder), LivePortrait or JoyVASA as an ONNX graph."""
    from engines.errors import EngineUnavailable

    if stage in artefacts.STAGES:
        artefacts.export(stage, out, precision, artefacts.Weights(models, seeded, reduced))
        return

    try:
        from engines.liveportrait import exporting
        from engines.liveportrait.checkpoints import Weights
    except ImportError as error:
        remedy = "Install the extra: pip install 'liveanchor[liveportrait]'."
        raise EngineUnavailable("liveportrait", f"it needs {error.name}", remedy) from error
    graph = exporting.export_stage(stage, out, Weights(models, seeded, reduced))
    typer.echo(f"{out}: {len(graph.nodes)} nodes, opset {graph.opset}")


def contracts(
    engine: Annotated[str | None, typer.Argument(help="One engine; all that have contracts by default.")] = None,
) -> None:
    """Print every stage's tensors: name, shape, meaning of axes, type, range, owner."""
    from engines import contracts as known

    for name in (engine,) if engine else known.names():
        stages = known.contracts_of(name)
        typer.echo(f"{name}\n")
        for line in known.table(stages):
            typer.echo(line)
        typer.echo("")


class _Tools:
    """The graph tools, imported on first use."""

    def __init__(self) -> None:
        from engines.graphs import audit, forms, model, rewrite, verify

        self.audit, self.forms, self.model, self.rewrite, self.verify = audit, forms, model, rewrite, verify


def _tools() -> _Tools:
    from engines.errors import EngineUnavailable

    try:
        return _Tools()
    except ImportError as error:
        remedy = "Install the extra: pip install 'liveanchor[liveportrait]'."
        raise EngineUnavailable("graphs", f"graph tools need {error.name}", remedy) from error


def _print(as_data: dict[str, Any], lines: Iterable[str], as_json: bool) -> None:
    if as_json:
        typer.echo(json.dumps(as_data, indent=2))
        return
    for line in lines:
        typer.echo(line)
