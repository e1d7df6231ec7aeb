"""`liveanchor precompile` and `liveanchor avatars`: make packets, look at them, check them, bring in, remove."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from avatars.store import AvatarStore
    from streamer.commands.batch import Batch

app = typer.Typer(help="Look at avatars, check them, bring them in, remove them.", no_args_is_help=True)

Folder = Annotated[Path, typer.Option("--avatars", help="Folder of avatar packets.")]
DEFAULT_FOLDER = Path("storage/cache/avatars")
Name = Annotated[str, typer.Argument(help="Id of the avatar.")]


def add_to(root: typer.Typer) -> None:
    """Mount both on the command line."""
    root.command()(precompile)
    root.add_typer(app, name="avatars")


def precompile(
    sources: Annotated[
        list[Path] | None,
        typer.Argument(
            help="Pictures, clips, or folders of them. By default the portraits that come with the program."
        ),
    ] = None,
    specific: Annotated[str | None, typer.Option(help="Only these ids, such as ruby,blaze.")] = None,
    jobs: Annotated[int, typer.Option(help="How many to make at once.", min=1, max=64)] = 1,
    avatars_dir: Folder = DEFAULT_FOLDER,
    engine: Annotated[str, typer.Option(help="Engine to prepare for; musetalk needs its weights.")] = "warp",
    face: Annotated[int, typer.Option(help="Which face, 0 the largest.", min=0)] = 0,
    bbox_shift: Annotated[int, typer.Option(help="Move MuseTalk's split line, pixels.")] = 0,
    max_height: Annotated[int, typer.Option(help="Reduce larger sources.", min=64, max=4320)] = 1080,
    cycle_frames: Annotated[int, typer.Option(help="Frames of a portrait's packet.", min=1, max=1500)] = 25,
    materialise: Annotated[bool, typer.Option(help="Store real copies of a portrait's frames.")] = False,
    again: Annotated[bool, typer.Option(help="Make even what is up to date.")] = False,
    idle: Annotated[
        str | None, typer.Option(help="Engine that lets portraits sway, look about and blink: liveportrait.")
    ] = None,
    idle_seconds: Annotated[float, typer.Option(help="Length of that loop.", min=1.0, max=60.0)] = 6.0,
    models: Annotated[Path | None, typer.Option(help="Folder of weights, storage/models by default.")] = None,
    device: Annotated[str, typer.Option(help="cpu or cuda, for --idle.")] = "cpu",
) -> None:
    """Prepare avatars: a packet that loads in milliseconds for every picture or clip."""
    from dataclasses import replace

    from avatars.precompile import FaceSettings
    from avatars.workshop import Recipe
    from engines import catalog
    from streamer.commands.batch import Batch, find_sources, makers_of

    settings = FaceSettings(
        face=face,
        bbox_shift_px=bbox_shift,
        max_width_px=16 * max_height // 9,
        max_height_px=max_height,
        official_margin=engine == "musetalk",
        cycle_frames=cycle_frames,
    )
    recipe = Recipe(settings, materialise, again)
    found = find_sources(sources or [], None if specific is None else specific.split(","))
    animator = None
    if idle is not None:
        animator = catalog.idle_animator(idle, models=models or catalog.MODELS, device=device, seconds=idle_seconds)
    makers = replace(makers_of(engine, models or catalog.MODELS), idle=animator)
    batch = Batch(avatars_dir, recipe, makers)
    batch.run(found, jobs)
    _summarise(batch)
    if batch.failed:
        raise typer.Exit(3)


@app.command("list")
def list_avatars(avatars_dir: Folder = DEFAULT_FOLDER) -> None:
    """All avatars, those that cannot be opened with the reason."""
    from avatars.errors import AvatarError

    store = _store(avatars_dir)
    rows = []
    for avatar_id in store.ids():
        try:
            e = store.entry(avatar_id)
            rows.append((e.avatar_id, e.kind, f"{e.width} x {e.height}", str(e.cycle_frames), e.grade, ""))
        except AvatarError as error:
            rows.append((avatar_id, "", "", "", "", str(error)))
    if not rows:
        typer.echo(f"no avatars in {avatars_dir}: run `liveanchor precompile`")
        return
    _table(("avatar", "kind", "size", "frames", "grade", "trouble"), rows)


@app.command()
def show(avatar: Name, avatars_dir: Folder = DEFAULT_FOLDER) -> None:
    """What is known of one avatar, as JSON."""
    import json

    typer.echo(json.dumps(_store(avatars_dir).info(avatar), indent=2, ensure_ascii=False))


@app.command()
def verify(
    avatars: Annotated[list[str] | None, typer.Argument(help="Ids; all by default.")] = None,
    avatars_dir: Folder = DEFAULT_FOLDER,
) -> None:
    """Read every byte and check it: digests, shapes, ranges, boxes."""
    from avatars.errors import AvatarError

    store = _store(avatars_dir)
    bad = 0
    for avatar_id in avatars or store.ids():
        try:
            packet = store.verify(avatar_id)
        except AvatarError as error:
            bad += 1
            typer.echo(f"{avatar_id}: {error}")
        else:
            width, height = packet.size_px
            digests = "digests right" if packet.info.get("digests") else "made elsewhere, no digests"
            idle = "" if packet.idle is None else f", sways in {len(packet.idle.planes)}"
            typer.echo(f"{avatar_id}: sound, {packet.cycle_frames} frames of {width} x {height}{idle}, {digests}")
    if bad:
        raise typer.Exit(3)


@app.command("import")
def import_folder(
    source: Annotated[Path, typer.Argument(help="A MuseTalk avatar folder, or a folder of the seven files.")],
    name: Annotated[str | None, typer.Option("--id", help="Id to give it; the folder's name by default.")] = None,
    bgr: Annotated[bool, typer.Option(help="Its frames are blue first.")] = False,
    avatars_dir: Folder = DEFAULT_FOLDER,
) -> None:
    """Bring in an avatar made elsewhere: read, checked, and written anew. The source stays as it is."""
    from avatars.importer import import_avatar
    from streamer.commands.batch import progress_bar, slug

    avatar_id = name or slug(source.resolve().name)
    with progress_bar() as bars:
        task = bars.add_task(avatar_id, total=1.0)
        info = import_avatar(
            source, _store(avatars_dir), avatar_id, bgr=bgr, progress=lambda done: bars.update(task, completed=done)
        )
    size = info["dimensions"]
    typer.echo(f"{avatar_id}: {info['cycle_frames']} frames of {size['width']} x {size['height']}; {info['latents']}")


@app.command()
def preview(
    avatar: Name,
    out: Annotated[
        Path | None, typer.Argument(help="PNG or JPEG of the packet instead: face box, crop and mask.")
    ] = None,
    frame: Annotated[int, typer.Option(help="Cycle frame.", min=0)] = 0,
    shifts: Annotated[str, typer.Option(help="Other splits to show, pixels, such as -8,0,8.")] = "",
    avatars_dir: Folder = DEFAULT_FOLDER,
) -> None:
    """See an avatar speak: ID-mouths.png, a sheet of eleven sounds, and ID.mp4, five seconds of talking."""
    from PIL import Image

    from avatars.preview import preview as draw
    from streamer.commands.talking import show_off
    from streamer.errors import ConfigError

    store = _store(avatars_dir)
    store.make_bundled(avatar)
    packet = store.open(avatar)
    if out is None:
        for path in show_off(packet, Path(avatar)):
            typer.echo(str(path))
        return
    try:
        shifts_px = tuple(int(text) for text in shifts.split(",") if text.strip())
    except ValueError:
        raise ConfigError("--shifts", "write whole numbers, such as -8,0,8") from None
    Image.fromarray(draw(packet, frame % packet.cycle_frames, shifts_px)).save(out)
    typer.echo(str(out))


@app.command()
def sway(
    avatars: Annotated[list[str] | None, typer.Argument(help="Ids; all by default.")] = None,
    avatars_dir: Folder = DEFAULT_FOLDER,
) -> None:
    """Give portraits the frames in which they sway and breathe; a server does so by itself."""
    from avatars.enliven import enliven

    store = _store(avatars_dir)
    for avatar_id in avatars or store.ids():
        store.make_bundled(avatar_id)
        done = enliven(store, avatar_id)
        typer.echo(f"{avatar_id}: {'sways now' if done else 'up to date, or not a portrait'}")


@app.command()
def remove(
    avatars: Annotated[list[str], typer.Argument(help="Ids.")],
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    avatars_dir: Folder = DEFAULT_FOLDER,
) -> None:
    """Delete avatars. Sessions that have one open keep it."""
    store = _store(avatars_dir)
    if not yes:
        typer.confirm(f"Delete {', '.join(avatars)} from {avatars_dir}?", abort=True)
    for avatar_id in avatars:
        store.remove(avatar_id)
        typer.echo(f"{avatar_id}: removed")


def _store(avatars_dir: Path) -> AvatarStore:
    from avatars.store import AvatarStore

    return AvatarStore(avatars_dir)


def _summarise(batch: Batch) -> None:
    rows = [
        (o.avatar_id, "up to date" if not o.fresh else "made", o.grade, f"{o.seconds:.2f}", "; ".join(o.advice))
        for o in batch.done
    ]
    rows += [(o.avatar_id, "FAILED", "", f"{o.seconds:.2f}", o.error) for o in batch.failed]
    _table(("avatar", "", "grade", "s", "to do better"), rows)
    count, total = len(batch.done) + len(batch.failed), batch.wall_s
    typer.echo(
        f"{len(batch.done)}/{count} avatars, {total:.1f} s in all, {total / max(1, count):.2f} s each "
        f"({batch.cpu_s / max(1, count):.2f} s CPU)"
    )


def _table(heads: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table(box=None, pad_edge=False)
    for head in heads:
        table.add_column(head, overflow="fold")
    for row in rows:
        table.add_row(*row)
    Console(file=sys.stdout, soft_wrap=False).print(table)
