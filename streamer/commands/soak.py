"""`liveanchor soak`: a long load run against a server, its own or another; a report; an exit code."""

from __future__ import annotations

import json
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from streamer.soak.plan import Profile
    from streamer.soak.run import Options

app = typer.Typer(help="Run synthetic clients against a server for long, and report.", invoke_without_command=True)

REHEARSED_MINUTES = 1.0
"""Shorter runs are looks, not verdicts on what is left behind."""
NOT_MET = 5
"""Exit code where a threshold is not met."""


@app.callback()
def soak(
    context: typer.Context,
    clients: Annotated[int, typer.Option(help="Synthetic clients.")] = 4,
    minutes: Annotated[float, typer.Option(help="How long.")] = 1.0,
    profiles: Annotated[
        str, typer.Option(help="talker=4,listener=2,joiner=1,interrupter=1,probe=1 in place of --clients.")
    ] = "",
    cycles: Annotated[int, typer.Option(help="Connect, speak, leave so often (joiners), however long it takes.")] = 0,
    stay: Annotated[float, typer.Option(help="Seconds a joiner speaks.")] = 1.0,
    ramp: Annotated[float, typer.Option(help="Seconds over which clients come.")] = 5.0,
    net: Annotated[
        str, typer.Option(help="A bad network both ways: loss=5,delay=50,jitter=5,reorder=1,rate=300,blackout=20:5")
    ] = "",
    limit: Annotated[
        list[str] | None, typer.Option(help="Threshold such as frame_gap_p99_ms<=120; may be repeated.")
    ] = None,
    url: Annotated[str | None, typer.Option(help="A server that runs; without it one is started.")] = None,
    token: Annotated[str | None, typer.Option(envvar="LIVEANCHOR_TOKEN", help="Bearer token of that server.")] = None,
    avatar: Annotated[str, typer.Option(help="Avatar to look at.")] = "ruby",
    canvas: Annotated[int, typer.Option(help="Largest side of the video, pixels.")] = 256,
    decoded: Annotated[int, typer.Option(help="So many clients decode their pictures; the rest count them.")] = 2,
    processes: Annotated[int, typer.Option(help="At most so many processes of clients.")] = 8,
    pinned: Annotated[bool, typer.Option(help="Clients on the last core, a server of ours on the others.")] = True,
    avatars_dir: Annotated[
        Path | None, typer.Option("--avatars", help="Avatars of the server to start; a new folder without it.")
    ] = None,
    config: Annotated[Path | None, typer.Option(help="Settings of the server to start.")] = None,
    out: Annotated[Path, typer.Option(help="Folder for soak.json and soak.html.")] = Path("soak"),
    as_json: Annotated[bool, typer.Option("--json", help="Print the figures as one JSON object.")] = False,
) -> None:
    """Run synthetic clients against a server for long, and report."""
    if context.invoked_subcommand is not None:
        return
    from streamer.soak import findings, plan
    from streamer.soak.impairment import read_impairment
    from streamer.soak.run import Options

    mix = {plan.Profile.JOINER: clients} if cycles and not profiles else plan.read_profiles(profiles, clients)
    server_cores, client_cores = _cores() if pinned else ((), ())
    options = Options(
        avatar=avatar,
        canvas_px=canvas,
        profiles=mix,
        seconds=_longest_s(cycles, mix.get(plan.Profile.JOINER, 0), stay) if cycles else 60 * minutes,
        ramp_s=ramp,
        cycles=cycles,
        stay_s=stay,
        net=read_impairment(net),
        decoded=decoded,
        processes=processes,
        token=token,
        cores=client_cores,
        limits=tuple(findings.read_limit(text) for text in limit or _limits(mix)),
        rehearsed=minutes >= REHEARSED_MINUTES,
    )
    report = _run(url, options) if url else _with_own_server(options, server_cores, avatars_dir, config)
    _write(report, out, as_json=as_json)
    if not all(check["passed"] for check in report["checks"]):
        raise typer.Exit(NOT_MET)


@app.command()
def compare(
    before: Annotated[Path, typer.Argument(help="soak.json of the first run.")],
    after: Annotated[Path, typer.Argument(help="soak.json of the second run.")],
    out: Annotated[Path, typer.Option(help="HTML file to write.")] = Path("soak-comparison.html"),
) -> None:
    """Two reports side by side."""
    from streamer.soak import report

    old, new = (report.read_report(_bytes(path), str(path)) for path in (before, after))
    out.write_text(report.comparison(old, new), encoding="utf-8")
    for name, was, now, percent in report.changes(old, new):
        sys.stdout.write(f"{name:<40} {was:>12.3f} {now:>12.3f} {percent:>8} %\n")
    sys.stdout.write(f"{out}\n")


def _bytes(path: Path) -> bytes:
    from streamer.errors import ConfigError

    try:
        return path.read_bytes()
    except OSError as error:
        raise ConfigError(str(path), f"cannot be read ({error.strerror})") from error


def _cores() -> tuple[tuple[int, ...], tuple[int, ...]]:
    """(the server's, the clients')."""
    import os

    cores = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []
    return (tuple(cores[:-1]), tuple(cores[-1:])) if len(cores) > 1 else ((), ())


def _limits(mix: dict[Profile, int]) -> tuple[str, ...]:
    """What a soak of these clients must meet where nothing else is asked."""
    from streamer.soak import findings, plan

    return findings.CYCLE_LIMITS if set(mix) == {plan.Profile.JOINER} else findings.DEFAULT_LIMITS


def _longest_s(cycles: int, joiners: int, stay_s: float) -> float:
    """Far more than the cycles can take: the joiners end the run."""
    return 60.0 + cycles / max(1, joiners) * (stay_s + 20.0)


def _with_own_server(
    options: Options, cores: tuple[int, ...], avatars_dir: Path | None, config: Path | None
) -> dict[str, Any]:
    import tempfile

    from streamer.bench.served import serve_command, served

    flags = ["--sessions", str(2 * sum(options.profiles.values()) + 2)]
    if config is not None:
        flags += ["--config", str(config)]
    with tempfile.TemporaryDirectory() as store, served(serve_command(avatars_dir or Path(store), flags)) as server:
        server.pin(cores)
        return _run(server.url, options)


def _run(url: str, options: Options) -> dict[str, Any]:
    import asyncio

    from streamer.soak.run import Soak
    from streamer.soak.view import View

    url = url.rstrip("/") + "/"
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # told to stop, it takes its server and clients along
    with View(options.seconds, sum(options.profiles.values())) as view:
        return asyncio.run(Soak(url, options, view.show).run())


def _write(report: dict[str, Any], out: Path, *, as_json: bool) -> None:
    from streamer.commands.bench import machine
    from streamer.soak.report import page

    out.mkdir(parents=True, exist_ok=True)
    (out / "soak.json").write_text(json.dumps(report, separators=(",", ":")), encoding="utf-8")
    (out / "soak.html").write_text(page(report), encoding="utf-8")
    if as_json:
        sys.stdout.write(json.dumps({"bench": "soak", "machine": machine(), "figures": report["figures"]}) + "\n")
        return
    for check in report["checks"]:
        found = "missing" if check["found"] is None else f"{check['found']:g}"
        sys.stdout.write(f"{'met' if check['passed'] else 'NOT MET':<8} {check['limit']:<44} found {found}\n")
    sys.stdout.write(f"{out / 'soak.html'}\n")
