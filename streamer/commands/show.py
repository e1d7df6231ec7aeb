"""`liveanchor show FILE`: a rundown as a film, faster than real time, or live in a room of a server."""

from __future__ import annotations

import asyncio
import json
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.progress import Progress

if TYPE_CHECKING:
    from streamer.config import Config


def add_to(app: typer.Typer) -> None:
    app.command()(show)


def show(
    file: Annotated[Path, typer.Argument(help="TOML or JSON: seats and a rundown; see docs/roundtable.md.")],
    out: Annotated[Path | None, typer.Option("--out", help="Render to this MP4 instead of playing it live.")] = None,
    engine: Annotated[str, typer.Option(help="Lip-sync engine.")] = "warp",
    avatars_dir: Annotated[Path | None, typer.Option("--avatars", help="Folder of avatar packets.")] = None,
    c2pa: Annotated[
        tuple[Path, Path] | None,
        typer.Option(metavar="CERT KEY", help="Sign the film: PEM files; needs the extra c2pa."),
    ] = None,
    port: Annotated[int | None, typer.Option(help="TCP port of the live server, 8007 by default.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Play a scripted show: live, or rendered to a film with --out."""
    from streamer.config import load
    from streamer.provenance import signer_of

    wishes = {
        "engine": engine,
        "avatars": str(avatars_dir) if avatars_dir else None,
        "port": port,
        "c2pa.certificate": str(c2pa[0]) if c2pa else None,
        "c2pa.key": str(c2pa[1]) if c2pa else None,
    }
    config = load(None, wishes)
    if out is None:
        import msgspec

        from streamer.commands import serving

        serving.run(msgspec.structs.replace(config, open=(str(file),)), print_url=False)
        return
    signer = signer_of(config.c2pa.certificate, config.c2pa.key)
    report = film(file, out, config, quiet=as_json)
    if signer is not None:
        signer.sign(out)
    typer.echo(json.dumps(report) if as_json else f"{out}: {report['seconds']} s in {report['elapsed_s']} s")


def film(file: Path, out: Path, config: Config, *, quiet: bool) -> dict[str, object]:
    """Render a show. Raises ConfigError, AvatarError, EngineError."""
    from avatars.store import AvatarStore
    from engines import catalog
    from streamer.casting import staged
    from streamer.film import FILM, recording
    from streamer.performer import Speaker
    from streamer.roundtable.production import Production
    from streamer.roundtable.rooms import SEAT_CANVAS_PX
    from streamer.roundtable.rundown import lay_out, read_show
    from streamer.roundtable.script import gather_sounds
    from streamer.tts import Voices

    began_s = time.perf_counter()
    described = read_show(file)
    with ThreadPoolExecutor(1, "speech") as executor:
        sounds = asyncio.run(gather_sounds(described, file.resolve().parent, Voices(config.piper_folder), executor))
    timeline = lay_out(described, sounds)
    store = AvatarStore(config.avatars_dir, sways=config.sway)
    for seat in described.seats:
        store.make_bundled(seat.avatar)
    engine = catalog.create(config.engine)
    engine.warm_up()
    packets = {seat.avatar: store.open(seat.avatar) for seat in described.seats}
    faces = {avatar: engine.attach(packet) for avatar, packet in packets.items()}
    stages = {avatar: staged(face, SEAT_CANVAS_PX) for avatar, face in faces.items()}
    speakers = {s.seat: Speaker(engine, faces[s.avatar], stages[s.avatar]) for s in described.seats}
    production = Production(described, timeline, speakers)
    with (
        Progress(console=Console(stderr=True, quiet=quiet), transient=True) as progress,
        recording(out, described.look().size_px, FILM) as output,
    ):
        task = progress.add_task(f"rendering {out.name}", total=timeline.frames)
        for picture in production.pictures():
            output.add(picture.index, picture.planes, picture.pcm48)
            progress.update(task, completed=picture.index + 1)
    elapsed_s = time.perf_counter() - began_s
    return {
        "engine": config.engine,
        "frames": timeline.frames,
        "seconds": round(timeline.frames / 25, 3),
        "elapsed_s": round(elapsed_s, 2),
        "times_real_time": round(elapsed_s / (timeline.frames / 25), 3),
    }
