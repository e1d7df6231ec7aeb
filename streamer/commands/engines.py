"""`liveanchor engines`: train what this project trains itself, and score what ships."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from streamer.commands import graphs

app = typer.Typer(help="Train and score lip-sync engines.", no_args_is_help=True)
train = typer.Typer(help="Train an engine's own networks.", no_args_is_help=True)
score = typer.Typer(help="Score an engine on what it never met.", no_args_is_help=True)
app.add_typer(train, name="train")
app.add_typer(score, name="score")
graphs.add_to(app)

Clips = Annotated[
    Path | None,
    typer.Option(
        help="Folder with human recordings and NAME.phone.json alignments, such as test/data/librivox of the "
        "pocketsphinx source package. Only ever scored on.",
        exists=True,
        file_okay=False,
    ),
]


def _say(line: str) -> None:
    typer.echo(line, err=True)


@train.command("warp-audio")
def train_warp_audio(
    out: Annotated[Path | None, typer.Option(help="Weights file to write; the shipped one by default.")] = None,
    seed: Annotated[int | None, typer.Option(help="Seed of speech, spoiling and training.")] = None,
    steps: Annotated[int | None, typer.Option(help="Training steps.")] = None,
    takes: Annotated[int | None, typer.Option(help="Spoilt copies of each utterance.")] = None,
    corpus_scale: Annotated[float | None, typer.Option(help="Share of the usual amount of speech.")] = None,
    clips: Clips = None,
) -> None:
    """Make speech with flite and espeak-ng, train the mouth network on it, and score it (one core, some minutes)."""
    from dataclasses import replace

    from engines.errors import EngineUnavailable
    from engines.warp.score import held_out_table
    from engines.warp.speech import MouthNet, shipped_weights

    try:
        from engines.warp import training
    except ImportError as error:
        raise EngineUnavailable(
            "warp", "training needs torch", "Install it: pip install 'liveanchor[musetalk]'."
        ) from error

    chosen: dict[str, Any] = {"seed": seed, "steps": steps, "takes": takes, "corpus_scale": corpus_scale}
    recipe = replace(training.Recipe(), **{name: value for name, value in chosen.items() if value is not None})
    out = out or shipped_weights()
    record = training.train(out, recipe, _say)
    record["score"] = held_out_table(MouthNet.read(out.read_bytes()), clips, _say)
    training.write_record(out, record)
    _show(record["score"])


@score.command("warp-audio")
def score_warp_audio(
    clips: Clips = None,
    weights: Annotated[Path | None, typer.Option(help="Weights file; the shipped one by default.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")] = False,
) -> None:
    """The held-out table of the audio-to-mouth network (needs flite and espeak-ng)."""
    from engines.warp.score import held_out_table
    from engines.warp.speech import MouthNet

    net = MouthNet.read(weights.read_bytes()) if weights is not None else MouthNet.load()
    table = held_out_table(net, clips, (lambda _: None) if as_json else _say)
    if as_json:
        typer.echo(json.dumps(table, indent=2))
    else:
        _show(table)


def _show(table: dict[str, Any]) -> None:
    from rich.console import Console
    from rich.table import Table

    console = Console()
    speech = Table(title="Held-out speech: Pearson r by channel, visemes at 25 fps")
    for heading in ("set", "s", "r open", "95 %", "wide", "round", "fv", "press", "viseme", "voiced", "lag ms"):
        speech.add_column(heading, justify="left" if heading == "set" else "right")
    for name, row in table["speech"].items():
        low, high = row["r_open_interval"]
        channels = [f"{row[f'r_{c}']:.2f}" for c in ("wide", "round", "fv", "press")]
        speech.add_row(
            name, f"{row['seconds']:.0f}", f"{row['r_open']:.3f}", f"{low:.2f}..{high:.2f}", *channels,
            f"{row['viseme_accuracy']:.3f}", f"{row['viseme_accuracy_voiced']:.3f}", f"{row['lag_ms']:.0f}",
        )  # fmt: skip
    console.print(speech)
    shut = Table(title="Other sound: share of frames in which the mouth opens")
    shut.add_column("sound")
    shut.add_column("share", justify="right")
    for name, share in table["opened_share"].items():
        shut.add_row(name, f"{share:.3f}")
    console.print(shut)
    console.print(f"{table['cpu_ms_a_frame']:.2f} ms CPU a frame, look-ahead {table['lookahead_ms']:.1f} ms")
