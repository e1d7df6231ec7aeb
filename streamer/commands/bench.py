"""`liveanchor bench NAME`: runs a benchmark of streamer/bench and prints its figures, or one JSON object."""

from __future__ import annotations

import importlib
import json
import os
import platform
import sys
from typing import Annotated

import typer

app = typer.Typer(help="Measure. Every NAME takes --json.", no_args_is_help=True)

NAMES = ("latency", "conversation", "fanout", "roundtable", "warp", "avatars", "film", "batch", "engine")


def machine() -> dict[str, object]:
    """What the figures were measured on."""
    return {
        "cpus": os.cpu_count(),
        "machine": platform.machine(),
        "python": platform.python_version(),
        "system": platform.system(),
    }


def _add(name: str) -> None:
    @app.command(name=name)
    def command(as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False) -> None:
        figures: dict[str, float] = importlib.import_module(f"streamer.bench.{name}").run()
        if as_json:
            sys.stdout.write(json.dumps({"bench": name, "machine": machine(), "figures": figures}) + "\n")
            return
        for key, value in figures.items():
            sys.stdout.write(f"{key:<40} {value:.3f}\n")

    command.__doc__ = f"Run the {name} benchmark."


for _name in NAMES:
    _add(_name)
