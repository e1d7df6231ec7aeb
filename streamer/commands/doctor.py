"""`liveanchor doctor`: looks at everything a session needs, one line each, with its remedy."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from collections.abc import Iterator

    from streamer.config import Config
    from streamer.doctor.finding import Finding

NOT_WELL = 6
"""Exit code where a check is bad."""
SIGNS = {"good": ("green", "✓"), "warn": ("yellow", "!"), "bad": ("red", "✗")}


def add_to(app: typer.Typer) -> None:
    app.command()(doctor)


def doctor(
    config: Annotated[Path | None, typer.Option(help="TOML file with settings.")] = None,
    engine: Annotated[str | None, typer.Option(help="Lip-sync engine.")] = None,
    avatars_dir: Annotated[Path | None, typer.Option("--avatars", help="Folder of avatar packets.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Look at everything a session needs, and say what to do where something is missing."""
    from streamer import config as settings

    overrides = {"engine": engine, "avatars": str(avatars_dir) if avatars_dir else None}
    found = []
    for finding in examine(settings.load(config, overrides)):
        found.append(finding)
        if not as_json:
            _show(finding)
    worst = [finding for finding in found if finding.verdict == "bad"]
    if as_json:
        sys.stdout.write(json.dumps({"well": not worst, "findings": [each.plain() for each in found]}) + "\n")
    if worst:
        raise typer.Exit(NOT_WELL)


def examine(config: Config) -> Iterator[Finding]:
    """All findings, as they are made."""
    from streamer.app import ice_settings
    from streamer.clock import MonotonicClock
    from streamer.doctor import machine, network, parts
    from streamer.tts import Voices

    yield machine.python()
    yield parts.packages()
    yield machine.cores()
    yield machine.clock()
    yield machine.disk(config.avatars_dir)
    yield machine.descriptors()
    yield machine.gpu()
    yield machine.sound_devices()
    yield parts.engine(config)
    yield parts.avatars(config)
    yield parts.voices(Voices(Path(config.tts.piper_voices) if config.tts.piper_voices else None).available())
    yield from parts.codecs()
    yield network.tcp_port(config)
    yield network.udp_ports(config)
    yield from asyncio.run(network.candidates(config, ice_settings(config)))
    yield asyncio.run(network.call(MonotonicClock()))


def _show(finding: Finding) -> None:
    from rich.console import Console
    from rich.text import Text

    colour, sign = SIGNS[finding.verdict]
    line = Text.assemble((f"{sign} ", colour), (f"{finding.check:<14} ", "bold"), finding.found)
    if finding.remedy:
        line.append(f"\n{'':17}→ {finding.remedy}", style=colour)
    Console(soft_wrap=True, highlight=False).print(line)
