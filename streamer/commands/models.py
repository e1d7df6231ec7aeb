"""`liveanchor models`: bring engines' weights here, look at them, check them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from collections.abc import Callable

    from engines.models.pull import Pulled

app = typer.Typer(help="Bring engines' weights here and check them.", no_args_is_help=True)
DEFAULT_FOLDER = Path("storage/models")
Folder = Annotated[Path, typer.Option("--models", help="Folder of weights.")]
Names = Annotated[list[str], typer.Argument(help="Sets of models, such as liveportrait joyvasa.")]


def add_to(root: typer.Typer) -> None:
    """Mount the commands."""
    root.add_typer(app, name="models")


@app.command("list")
def list_sets(models: Folder = DEFAULT_FOLDER) -> None:
    """Which sets there are, from where, under which licence, and whether they are here."""
    from engines.models import manifest

    for name in manifest.names():
        found = manifest.load(name)
        here = sum((models / name / file.to).is_file() for file in found.files)
        typer.echo(f"{name}: {found.title}; {here} of {len(found.files)} files here")
        for source in dict.fromkeys((f.repository, f.revision, f.licence) for f in found.files):
            typer.echo(f"  {source[0]} at {source[1][:12]}, {source[2]}")


@app.command()
def pull(
    names: Names,
    models: Folder = DEFAULT_FOLDER,
    mirror: Annotated[
        str | None, typer.Option(help="Server with the origin's layout.", envvar="LIVEANCHOR_MODELS_MIRROR")
    ] = None,
    source: Annotated[Path | None, typer.Option("--from", help="Folder with the files; nothing is fetched.")] = None,
) -> None:
    """Fetch models at their fixed revisions; an interrupted fetch goes on, and only right files are kept."""
    from engines.models import manifest
    from engines.models.pull import Source
    from engines.models.pull import pull as bring

    place = Source(mirror or manifest.ORIGIN, source)
    for name in names:
        found = manifest.load(name)
        with _Bars() as on_file:
            done = bring(found, models, place, on_file)
        _tell(name, done)
        for licence in dict.fromkeys(f"{f.repository}: {f.licence}" for f in found.files):
            typer.echo(f"  licence of {licence}")


@app.command()
def verify(names: Names, models: Folder = DEFAULT_FOLDER) -> None:
    """Read every byte of models that are here and hold them to their digests."""
    from engines.models import manifest
    from engines.models.pull import verify as read

    for name in names:
        _tell(name, read(manifest.load(name), models))


def _tell(name: str, done: list[Pulled]) -> None:
    for file in done:
        typer.echo(f"{name}/{file.to}: {file.how}, sha256 {file.sha256[:16]}…")


class _Bars:
    """One bar a file, on standard error."""

    def __enter__(self) -> Callable[[str, int, int | None], None]:
        from rich.console import Console
        from rich.progress import BarColumn, DownloadColumn, Progress, TaskID, TextColumn, TransferSpeedColumn

        self._progress = Progress(
            TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn(),
            console=Console(stderr=True),
        )  # fmt: skip
        tasks: dict[str, TaskID] = {}
        self._progress.start()

        def on_file(name: str, done: int, total: int | None) -> None:
            if name not in tasks:
                tasks[name] = self._progress.add_task(Path(name).name, total=total)
            self._progress.update(tasks[name], completed=done, total=total)

        return on_file

    def __exit__(self, *_: object) -> None:
        self._progress.stop()
