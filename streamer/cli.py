"""The command line. Knows typer and nothing else at import: each command imports what it needs."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from streamer.commands import avatars, bench, doctor, engines, models, render, show, soak

app = typer.Typer(
    name="liveanchor",
    help="Live talking avatars: speech in over WebRTC, a lip-synced anchor out.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
avatars.add_to(app)
render.add_to(app)
doctor.add_to(app)
models.add_to(app)
show.add_to(app)
app.add_typer(engines.app, name="engines")
app.add_typer(bench.app, name="bench")
app.add_typer(soak.app, name="soak")


@app.command()
def serve(  # noqa: PLR0913 - one parameter a flag
    host: Annotated[
        str | None, typer.Option(help="Address to listen on; another than 127.0.0.1 needs --token.")
    ] = None,
    port: Annotated[int | None, typer.Option(help="TCP port, 8007 by default; 0 takes a free one.")] = None,
    token: Annotated[str | None, typer.Option(help="Bearer token of the API.", envvar="LIVEANCHOR_TOKEN")] = None,
    engine: Annotated[str | None, typer.Option(help="Lip-sync engine.")] = None,
    phones: Annotated[
        str | None, typer.Option(help="Also hear phones, English only: pocketsphinx (an extra; engine warp).")
    ] = None,
    avatars_dir: Annotated[Path | None, typer.Option("--avatars", help="Folder of avatar packets.")] = None,
    models: Annotated[Path | None, typer.Option(help="Folder of weights, for engines that have some.")] = None,
    config: Annotated[Path | None, typer.Option(help="TOML file with settings.")] = None,
    announce: Annotated[list[str] | None, typer.Option(help="Public IP address to offer; may be repeated.")] = None,
    udp_ports: Annotated[str | None, typer.Option(help="UDP port range for media, such as 40000-40100.")] = None,
    canvas: Annotated[int | None, typer.Option(help="Largest side of the video, pixels.")] = None,
    sessions: Annotated[int | None, typer.Option(help="Most sessions at once.")] = None,
    badge: Annotated[str | None, typer.Option(help="Words in the corner of every picture, such as AI.")] = None,
    sway: Annotated[
        bool | None, typer.Option("--sway/--no-sway", help="Portraits sway and breathe, up to a canvas of 512 px.")
    ] = None,
    c2pa: Annotated[
        tuple[Path, Path] | None,
        typer.Option(metavar="CERT KEY", help="Sign recordings and films (MP4): PEM files; needs the extra c2pa."),
    ] = None,
    rooms: Annotated[list[Path] | None, typer.Option("--room", help="Open a room or a show of this file.")] = None,
    print_url: Annotated[bool, typer.Option("--print-url", help="Print the URL alone, when ready.")] = False,
) -> None:
    """Run the server and its demo page."""
    from streamer import config as settings
    from streamer.commands import serving

    overrides = {
        "host": host,
        "port": port,
        "token": token,
        "engine": engine,
        "engine_options.phones": phones,
        "avatars": str(avatars_dir) if avatars_dir else None,
        "models": str(models) if models else None,
        "ice.announce": announce or None,
        "ice.udp_ports": serving.port_range(udp_ports) if udp_ports else None,
        "canvas_px": canvas,
        "badge": badge,
        "sway": sway,
        "c2pa.certificate": str(c2pa[0]) if c2pa else None,
        "c2pa.key": str(c2pa[1]) if c2pa else None,
        "limits.sessions": sessions,
        "open": [str(path) for path in rooms] if rooms else None,
    }
    serving.run(settings.load(config, overrides), print_url=print_url)


def main() -> None:
    """Run a command; our own errors become one line and an exit code."""
    # A network of a frame's size is too small to share out, and idle BLAS threads spin: ten times slower on a busy CPU.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    try:
        app()
    except Exception as error:  # one of the five borders
        code = exit_code(error)
        if code is None:
            raise
        sys.stderr.write(f"liveanchor: {error}\n")
        sys.exit(code)


def exit_code(error: Exception) -> int | None:
    """2 for a wrong setting, 3 for an avatar, 4 for an engine, 1 for the rest of ours; None for a foreign error."""
    from avatars.errors import AvatarError
    from engines.errors import EngineError
    from streamer.errors import ConfigError, StreamerError

    table = ((ConfigError, 2), (AvatarError, 3), (EngineError, 4), (StreamerError, 1))
    return next((code for kind, code in table if isinstance(error, kind)), None)


if __name__ == "__main__":
    main()
