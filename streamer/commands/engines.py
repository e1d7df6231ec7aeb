"""`liveanchor engines`: train what this project trains itself, and score what ships."""

from __future__ import annotations

import json
from pathlib import Path
from types import ModuleType
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

    from engines.warp.speech import shipped_weights

    training, presence = _training()
    chosen: dict[str, Any] = {"seed": seed, "steps": steps, "takes": takes, "corpus_scale": corpus_scale}
    recipe = replace(training.Recipe(), **{name: value for name, value in chosen.items() if value is not None})
    out = out or shipped_weights()
    utterances = training.training_utterances(recipe.seed, scale=recipe.corpus_scale)
    record = training.train(out, recipe, _say, utterances)
    record["presence"] = presence.add(out, utterances, presence.PresenceRecipe(), _say)
    _score_and_record(out, record, clips)


@train.command("warp-presence")
def train_warp_presence(
    weights: Annotated[Path | None, typer.Option(help="Weights file to change; the shipped one by default.")] = None,
    clips: Clips = None,
) -> None:
    """Train only the mouth network's last word, whether one voice stands out, and score the whole."""
    from engines.warp.speech import shipped_weights

    training, presence = _training()
    weights = weights or shipped_weights()
    record = json.loads(weights.with_suffix(".json").read_text())
    made_by = record["recipe"]
    utterances = training.training_utterances(made_by["seed"], scale=made_by["corpus_scale"])
    record["presence"] = presence.add(weights, utterances, presence.PresenceRecipe(), _say)
    _score_and_record(weights, record, clips)


def _training() -> tuple[ModuleType, ModuleType]:
    """The modules that need torch."""
    from engines.errors import EngineUnavailable

    try:
        from engines.warp import presence, training
    except ImportError as error:
        remedy = "Install it: pip install 'liveanchor[musetalk]'."
        raise EngineUnavailable("warp", "training needs torch", remedy) from error
    return training, presence


def _score_and_record(weights: Path, record: dict[str, Any], clips: Path | None) -> None:
    """The record is written before it is scored, so that no training is lost to a missing clip."""
    from engines.warp import training
    from engines.warp.score import held_out_table
    from engines.warp.speech import MouthNet

    training.write_record(weights, record)
    record["score"] = held_out_table(MouthNet.read(weights.read_bytes()), clips, _say)
    training.write_record(weights, record)
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
    for name in ("", "_with_phones"):
        if f"cpu_ms_a_frame{name}" in table:
            cpu_ms, lookahead_ms = table[f"cpu_ms_a_frame{name}"], table[f"lookahead{name}_ms"]
            console.print(f"{cpu_ms:.2f} ms CPU a frame, look-ahead {lookahead_ms:.1f} ms{name.replace('_', ' ')}")
