"""`liveanchor render`: a portrait and a sound, or a driving clip, to a file that players play."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from streamer.media import S16
    from streamer.render.take import Take

TIERS = ("preview", "quality", "full")


@dataclass(frozen=True, slots=True)
class Wishes:
    """What the command line asks for, engine by engine the same."""

    portrait: Path
    audio: Path | None
    driving: Path | None
    idle_s: float | None
    tier: str
    models: Path | None
    seeded: bool
    reduced: bool
    seed: int
    inject: tuple[str, ...]
    device: str


def add_to(root: typer.Typer) -> None:
    """Mount the command."""
    root.command()(render)


def render(
    portrait: Annotated[Path, typer.Argument(help="Picture with a face, or the id of a bundled portrait.")],
    audio: Annotated[
        Path, typer.Argument(help="Sound to speak: a sound file, or a clip whose sound to use; - for none.")
    ],
    out: Annotated[Path, typer.Argument(help="File to write, .mp4 or .webm; a report lies beside it as OUT.json.")],
    engine: Annotated[str, typer.Option(help="Engine to render with.")] = "liveportrait",
    driving: Annotated[
        Path | None, typer.Option(help="Clip of a face whose motion to take; AUDIO is laid over it.")
    ] = None,
    idle: Annotated[float | None, typer.Option(help="Seconds of a face that waits, in a loop; AUDIO is -.")] = None,
    tier: Annotated[
        str, typer.Option(help="preview: sparse keyframes; quality: denser; full: every frame.")
    ] = "quality",
    models: Annotated[Path | None, typer.Option(help="Folder with weights, see `models pull`.")] = None,
    seeded: Annotated[bool, typer.Option(help="Made-up weights: the whole chain runs, faces it makes none.")] = False,
    reduced: Annotated[bool, typer.Option(help="Small widths; with --seeded only.")] = False,
    seed: Annotated[int, typer.Option(help="Of the motion's noise: the same seed, the same motion.")] = 0,
    device: Annotated[str, typer.Option(help="cpu or cuda.")] = "cpu",
    fresh: Annotated[bool, typer.Option(help="Begin anew though an earlier run can be gone on with.")] = False,
    keep_work: Annotated[bool, typer.Option(help="Keep OUT.work after the end.")] = False,
    inject: Annotated[
        list[str] | None,
        typer.Option(help="Faults on purpose: nan@FRAME, jump@FRAME, denoiser@WINDOW; xN for N times."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the report and nothing else.")] = False,
) -> None:
    """Render a talking portrait offline. What an interrupted run has done is kept and gone on with."""
    from streamer.clock import MonotonicClock
    from streamer.commands.showing import Showing
    from streamer.errors import ConfigError
    from streamer.render.job import Order, RenderJob

    if tier not in TIERS:
        raise ConfigError("--tier", f"{tier} is none of {', '.join(TIERS)}")
    maker = _MAKERS.get(engine)
    if maker is None:
        raise ConfigError("--engine", f"{engine} renders no files; choose one of {', '.join(_MAKERS)}")
    sound_file = None if str(audio) == "-" else audio
    wishes = Wishes(
        _portrait(portrait), sound_file, driving, idle, tier, models, seeded, reduced, seed, tuple(inject or ()), device
    )
    take, sound = maker(wishes)
    about = {k: v for k, v in asdict(wishes).items() if k not in ("portrait", "audio", "driving", "models")}
    about |= {"engine": engine, "portrait": wishes.portrait.name, "models": str(models) if models else None}
    about |= {"audio": sound_file.name if sound_file else None, "driving": driving.name if driving else None}
    files = [path for path in (wishes.portrait, sound_file, driving) if path is not None]
    with Showing(quiet=as_json) as showing:
        job = RenderJob(take, Order(out, sound, about, files, fresh, keep_work), MonotonicClock(), showing)
        report = job.run()
    if as_json:
        typer.echo(json.dumps(report, indent=2))
    else:
        _summary(report, out)


def _portrait(given: Path) -> Path:
    """A path, or the bundled portrait of this id."""
    from avatars.bundled import bundled_portraits

    known = {p.id: p.path for p in bundled_portraits()}
    return known.get(str(given), given)


def _liveportrait(wishes: Wishes) -> tuple[Take, S16 | None]:
    from engines.errors import EngineUnavailable

    try:
        from streamer.render import liveportrait
    except ImportError as error:
        remedy = "Install the extra: pip install 'liveanchor[liveportrait]'."
        raise EngineUnavailable("liveportrait", f"it needs {error.name}", remedy) from error
    return liveportrait.take_of(wishes)


_MAKERS: dict[str, Callable[[Wishes], tuple[Take, S16 | None]]] = {"liveportrait": _liveportrait}
"""Engines that render to files."""


def _summary(report: dict[str, Any], out: Path) -> None:
    counts = report["counts"]
    typer.echo(
        f"{out}: {report['frames']} frames, {report['keyframes']} rendered by the network, "
        f"{counts['interpolated']} interpolated; {counts['retried']} rendered twice, {counts['held']} held"
    )
    typer.echo(
        f"{report['elapsed_s']:.1f} s for {report['seconds']:.1f} s of video: {report['times_real_time']} x real time"
    )
    for reason, count in report["findings_by_reason"].items():
        typer.echo(f"  {reason}: {count}")
    for fault in report["inspection"]["faults"]:
        typer.echo(f"  the file: {fault}")
