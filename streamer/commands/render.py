"""`liveanchor render`: a portrait and a sound, or a driving clip, to a file that players play."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from streamer.graphics.badge import Badge
    from streamer.media import S16
    from streamer.provenance import FilmSigner
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
    badge: Badge | None = None


def add_to(root: typer.Typer) -> None:
    """Mount the command."""
    root.command()(render)


def render(
    portrait: Annotated[Path, typer.Argument(help="Picture with a face, or the id of a bundled portrait.")],
    audio: Annotated[
        Path, typer.Argument(help="Sound to speak: a sound file, or a clip whose sound to use; - for none.")
    ],
    out: Annotated[Path, typer.Argument(help="File to write, .mp4 or .webm; a report lies beside it as OUT.json.")],
    engine: Annotated[str, typer.Option(help="Engine to render with: warp, or liveportrait.")] = "warp",
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
    badge: Annotated[str | None, typer.Option(help="Words in the corner of every picture, such as AI.")] = None,
    c2pa: Annotated[
        tuple[Path, Path] | None,
        typer.Option(metavar="CERT KEY", help="Sign the film (MP4): PEM files; needs the extra c2pa."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the report and nothing else.")] = False,
) -> None:
    """Render a talking portrait offline. With liveportrait, what an interrupted run has done is gone on with."""
    from engines import catalog
    from streamer.errors import ConfigError
    from streamer.graphics.badge import chosen
    from streamer.provenance import SUFFIX, signer_of

    if c2pa is not None and out.suffix.lower() != SUFFIX:
        raise ConfigError("--c2pa", f"only {SUFFIX} files can carry a manifest")
    signer = signer_of(*c2pa) if c2pa else None
    sound_file = None if str(audio) == "-" else audio
    faults, mark = tuple(inject or ()), chosen(None, badge)
    wishes = Wishes(portrait, sound_file, driving, idle, tier, models, seeded, reduced, seed, faults, device, mark)
    if engine in catalog.names() and engine not in _MAKERS:
        _talk(engine, wishes, out, signer, as_json=as_json)
        return
    report = _report(engine, wishes, Leftovers(out, fresh, keep_work), quiet=as_json)
    if signer is not None:
        signer.sign(out)
    if as_json:
        typer.echo(json.dumps(report, indent=2))
    else:
        _summary(report, out)


@dataclass(frozen=True, slots=True)
class Leftovers:
    """Where the file goes, and what becomes of earlier and later work files."""

    out: Path
    fresh: bool
    keep_work: bool


def _talk(engine: str, wishes: Wishes, out: Path, signer: FilmSigner | None, *, as_json: bool) -> None:
    """With an engine of the live line: a sound spoken into an MP4."""
    from streamer.commands.talking import Finish, talk
    from streamer.errors import ConfigError

    if wishes.audio is None or wishes.driving or wishes.idle_s is not None or out.suffix.lower() != ".mp4":
        raise ConfigError("--engine", f"{engine} speaks a sound into an .mp4; take liveportrait for anything else")
    finish = Finish(wishes.badge, signer)
    talk(str(wishes.portrait), wishes.audio, out, engine, finish, as_json=as_json)


def _report(engine: str, wishes: Wishes, leftovers: Leftovers, *, quiet: bool) -> dict[str, Any]:
    """With an engine of its own offline chain."""
    from streamer.clock import MonotonicClock
    from streamer.commands.showing import Showing
    from streamer.errors import ConfigError
    from streamer.render.encode import container_of
    from streamer.render.job import Order, RenderJob

    if wishes.tier not in TIERS:
        raise ConfigError("--tier", f"{wishes.tier} is none of {', '.join(TIERS)}")
    maker = _MAKERS.get(engine)
    if maker is None:
        raise ConfigError("--engine", f"{engine} renders no files; choose warp or one of {', '.join(_MAKERS)}")
    container_of(leftovers.out)
    wishes = replace(wishes, portrait=_portrait(wishes.portrait))
    take, sound = maker(wishes)
    paths = {"portrait": wishes.portrait, "audio": wishes.audio, "driving": wishes.driving}
    about = {k: v for k, v in asdict(wishes).items() if k not in paths and k not in ("models", "badge")}
    about |= {name: path.name if path else None for name, path in paths.items()}
    about |= {"engine": engine, "models": str(wishes.models) if wishes.models else None}
    files = [path for path in paths.values() if path is not None]
    with Showing(quiet=quiet) as showing:
        order = Order(leftovers.out, sound, about, files, leftovers.fresh, leftovers.keep_work, wishes.badge)
        return RenderJob(take, order, MonotonicClock(), showing).run()


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
