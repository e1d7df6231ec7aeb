"""Trains the mouth network on speech it makes itself and writes its weights. The only module here with torch."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import safetensors.numpy
import torch
from torch import nn

from engines.contract import ANALYSIS_HZ
from engines.warp import augment
from engines.warp.corpus import Utterance, training_utterances
from engines.warp.phones import CHANNELS, VISEMES, mouth_curves, visemes_at
from engines.warp.speech import HOP_SAMPLES, MEL_BANDS, MEL_WINDOW_SAMPLES, log_mel, mel_filters

F16 = npt.NDArray[np.float16]
F32 = npt.NDArray[np.float32]
I64 = npt.NDArray[np.int64]
Draw = np.random.Generator

CHANNEL_WEIGHTS = (1.5, 1.0, 1.5, 1.5, 2.0, 0.7)


@dataclass(frozen=True, slots=True)
class Recipe:
    """Everything that decides the weights, so that they can be made again."""

    seed: int = 7
    channels: int = 64
    dilations: tuple[int, ...] = (1, 2, 4, 8, 16)
    lookahead_frames: int = 5
    """10 ms rows after the one described; smoothing adds one more, the mel window half of its 25 ms."""
    takes: int = 4
    """Differently spoilt copies of each utterance."""
    non_speech_share: float = 0.32
    swell_share: float = 0.3
    contrast: float = 0.2
    steps: int = 5000
    batch: int = 20
    crop_rows: int = 288
    learning_rate: float = 3e-3
    weight_decay: float = 1e-3
    viseme_loss: float = 0.3
    masked_share: float = 0.3
    """Share of crops in which a run of mel bands is blanked, so that no band is trusted alone."""
    averaging: float = 0.998
    """The weights that ship are a running mean of the trained ones, with this much memory a step."""
    corpus_scale: float = 1.0
    without_flite: tuple[str, ...] = ()
    """Voices left out while a recipe is chosen; none in the weights that ship."""


@dataclass(frozen=True, slots=True, eq=False)
class Pool:
    """All takes end to end, one row for each 10 ms."""

    mel: F16
    """(n, MEL_BANDS) log power."""
    shapes: F16
    """(n, 6)."""
    visemes: npt.NDArray[np.int8]
    """(n,)."""


class Network(nn.Module):  # type: ignore[misc]
    """The causal network: what `speech.MouthNet` computes, with gradients."""

    def __init__(self, recipe: Recipe) -> None:
        super().__init__()
        width = recipe.channels
        self.dilations = recipe.dilations
        self.mean = nn.Parameter(torch.zeros(MEL_BANDS), requires_grad=False)
        self.scale = nn.Parameter(torch.ones(MEL_BANDS), requires_grad=False)
        self.input = nn.Conv1d(MEL_BANDS, width, 3)
        self.blocks = nn.ModuleList(
            nn.ModuleDict({"dilated": nn.Conv1d(width, width, 3, dilation=d), "point": nn.Conv1d(width, width, 1)})
            for d in recipe.dilations
        )
        self.shape = nn.Conv1d(width, len(CHANNELS), 1)
        self.viseme = nn.Conv1d(width, len(VISEMES), 1)

    def forward(self, mel: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """(B, T, MEL_BANDS) -> (B, T - history, 6) logits and (B, T - history, 14) logits."""
        x = ((mel - self.mean) * self.scale).transpose(1, 2)
        x = torch.relu(self.input(x))
        for block, dilation in zip(self.blocks, self.dilations, strict=True):
            x = x[:, :, 2 * dilation :] + block["point"](torch.relu(block["dilated"](x)))
        return self.shape(x).transpose(1, 2), self.viseme(x).transpose(1, 2)


def spoilt_take(utterance: Utterance, crowd: Sequence[Utterance], recipe: Recipe, draw: Draw) -> tuple[F32, F32, I64]:
    """One utterance as some throat, room, microphone and line would give it: log-mel, shapes and visemes by row."""
    before = int(draw.uniform(0.1, 0.8) * ANALYSIS_HZ)
    sound = np.pad(utterance.samples, (before, int(draw.uniform(0.1, 0.5) * ANALYSIS_HZ)))
    if draw.random() < 0.15:
        sound = augment.breathy(sound, draw)
    if draw.random() < recipe.swell_share:
        sound = augment.swelling(sound, draw)
    if draw.random() < 0.45:
        sound = augment.room(sound, draw)
    if draw.random() < 0.8:
        sound = augment.with_noise(sound, _background(len(sound), crowd, draw), draw.uniform(4.0, 40.0))
    if draw.random() < 0.75:
        sound = augment.equalise(sound, draw)
    sound = _levelled(sound, draw)
    if draw.random() < 0.25:
        sound = augment.through_codec(sound, str(draw.choice(augment.CODECS)), draw)
    mel = log_mel(sound, mel_filters(draw.uniform(0.8, 1.25)))
    if recipe.contrast > 0.0:
        level = mel.mean(axis=1, keepdims=True)
        mel = level + (mel - level) * np.float32(1.0 + draw.uniform(-recipe.contrast, recipe.contrast))
    times_s = (np.arange(len(mel)) * HOP_SAMPLES + MEL_WINDOW_SAMPLES // 2 - before) / ANALYSIS_HZ
    return mel, mouth_curves(utterance.phones, times_s), visemes_at(utterance.phones, times_s)


def _background(count: int, crowd: Sequence[Utterance], draw: Draw) -> F32:
    kind = draw.random()
    if kind < 0.45:
        return augment.coloured_noise(count, draw.uniform(0.0, 2.0), draw)
    if kind < 0.6:
        return _babble(count, crowd, draw)
    return augment.non_speech(str(draw.choice(augment.NON_SPEECH)), count, draw)


def _babble(count: int, crowd: Sequence[Utterance], draw: Draw) -> F32:
    voices = [crowd[i].samples for i in draw.integers(0, len(crowd), draw.integers(4, 14))]
    return augment.babble(voices, count, draw)


def _levelled(sound: F32, draw: Draw) -> F32:
    """The loud parts brought to -60..-6 dBFS; what is over full scale clips, as in a sound card."""
    gain = 10.0 ** (draw.uniform(-60.0, -6.0) / 20.0) / (augment.loud_rms(sound) + 1e-9)
    levelled: F32 = np.clip(sound * np.float32(gain), -1.0, 1.0)
    return levelled


def _silent_take(crowd: Sequence[Utterance], draw: Draw) -> F32:
    """Log-mel of sound at which a mouth stays shut."""
    count = int(draw.uniform(2.0, 4.0) * ANALYSIS_HZ)
    kind = str(draw.choice((*augment.NON_SPEECH, "breath", *["babble"] * 6, "noise")))
    if kind == "babble":
        sound = _babble(count, crowd, draw)
    elif kind == "noise":
        sound = augment.coloured_noise(count, draw.uniform(0.0, 2.0), draw)
    else:
        sound = augment.non_speech(kind, count, draw)
    if draw.random() < 0.5:
        sound = augment.equalise(sound, draw)
    if draw.random() < 0.3:
        sound = augment.room(sound, draw)
    gain = 10.0 ** (draw.uniform(-70.0, -12.0) / 20.0) / augment.loud_rms(sound)
    return log_mel(np.clip(sound * np.float32(gain), -1.0, 1.0), mel_filters(draw.uniform(0.85, 1.2)))


def make_pool(utterances: Sequence[Utterance], recipe: Recipe, progress: Callable[[str], None]) -> Pool:
    """All takes of all utterances and the sounds that are not speech, in random order."""
    draw = np.random.default_rng(recipe.seed)
    mels, shapes, visemes = [], [], []
    for take in range(recipe.takes):
        for i in draw.permutation(len(utterances)):
            mel, shape, viseme = spoilt_take(utterances[i], utterances, recipe, draw)
            mels.append(mel.astype(np.float16))
            shapes.append(shape.astype(np.float16))
            visemes.append(viseme.astype(np.int8))
            if draw.random() < recipe.non_speech_share:
                mel = _silent_take(utterances, draw)
                mels.append(mel.astype(np.float16))
                shapes.append(np.zeros((len(mel), len(CHANNELS)), np.float16))
                visemes.append(np.zeros(len(mel), np.int8))
        progress(f"take {take + 1} of {recipe.takes}: {sum(map(len, mels)) / 100 / 60:.0f} minutes of sound")
    return Pool(np.concatenate(mels), np.concatenate(shapes), np.concatenate(visemes))


def fit(pool: Pool, recipe: Recipe, progress: Callable[[str], None]) -> Network:
    """Train on random crops of the pool; the learning rate falls along a cosine."""
    torch.manual_seed(recipe.seed)
    torch.set_num_threads(1)
    draw = np.random.default_rng(recipe.seed + 1)
    network = Network(recipe)
    sample = pool.mel[:: max(1, len(pool.mel) // 200_000)].astype(np.float32)
    network.mean.data = torch.from_numpy(sample.mean(axis=0))
    network.scale.data = torch.from_numpy(1.0 / (sample.std(axis=0) + 1e-3))
    average = copy.deepcopy(network)
    optimiser = torch.optim.AdamW(
        [p for p in network.parameters() if p.requires_grad], recipe.learning_rate, weight_decay=recipe.weight_decay
    )
    history = 2 + 2 * sum(recipe.dilations)
    rows = np.arange(recipe.crop_rows + history)
    targets = np.arange(recipe.crop_rows) + history - recipe.lookahead_frames
    weights = torch.tensor(CHANNEL_WEIGHTS)
    running = 0.0
    for step in range(recipe.steps):
        start = draw.integers(0, len(pool.mel) - len(rows), recipe.batch)[:, None]
        mel = torch.from_numpy(_masked(pool.mel[start + rows].astype(np.float32), sample.mean(axis=0), recipe, draw))
        shapes = torch.from_numpy(pool.shapes[start + targets].astype(np.float32))
        visemes = torch.from_numpy(pool.visemes[start + targets].astype(np.int64))
        for group in optimiser.param_groups:
            group["lr"] = recipe.learning_rate * max(0.01, 0.5 * (1.0 + np.cos(np.pi * step / recipe.steps)))
        logits, scores = network(mel)
        shape_loss = ((torch.sigmoid(logits) - shapes) ** 2 * weights).mean() * 10.0
        loss = shape_loss + recipe.viseme_loss * nn.functional.cross_entropy(scores.flatten(0, 1), visemes.flatten())
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        for kept, new in zip(average.parameters(), network.parameters(), strict=True):
            kept.data.lerp_(new.data, 1.0 - min(recipe.averaging, (1.0 + step) / (10.0 + step)))
        running = 0.98 * running + 0.02 * float(loss.detach()) if step else float(loss.detach())
        if step % 250 == 249:
            progress(f"step {step + 1} of {recipe.steps}: loss {running:.3f}")
    average.eval()
    return average


def _masked(mel: F32, mean: F32, recipe: Recipe, draw: Draw) -> F32:
    """(B, T, MEL_BANDS) with some crops blind in up to eight neighbouring bands."""
    for crop in mel:
        if draw.random() < recipe.masked_share:
            width = int(draw.integers(1, 9))
            first = int(draw.integers(0, MEL_BANDS - width))
            crop[:, first : first + width] = mean[first : first + width]
    return mel


def calibrate(network: Network, pool: Pool, recipe: Recipe) -> tuple[F32, F32]:
    """Gain and floor of each channel.

    A network trained on squared error moves too little, and by a tenth less again on a voice it has not met (measured
    on one left out): the gain gives back the spread of the truth. The floor keeps small doubts shut.
    """
    history = 2 + 2 * sum(recipe.dilations)
    count = min(len(pool.mel), 60_000)
    with torch.no_grad():
        logits, _ = network(torch.from_numpy(pool.mel[:count].astype(np.float32))[None])
    said = torch.sigmoid(logits)[0].numpy()
    truth = pool.shapes[history - recipe.lookahead_frames :][: len(said)].astype(np.float32)
    gain = 1.1 * truth.std(axis=0) / said.std(axis=0)
    return np.clip(gain, 1.0, 1.6).astype(np.float32), np.full(len(CHANNELS), 0.03, np.float32)


def save(network: Network, recipe: Recipe, gain: F32, floor: F32, path: Path) -> None:
    """Write the weights as half precision with what the run time must know in the header."""
    weights = {name: value.detach().numpy().astype(np.float16) for name, value in network.state_dict().items()}
    weights |= {"gain": gain, "floor": floor}
    header = {
        "dilations": " ".join(map(str, recipe.dilations)),
        "lookahead_frames": str(recipe.lookahead_frames),
        "channels": " ".join(CHANNELS),
        "visemes": " ".join(VISEMES),
    }
    path.write_bytes(safetensors.numpy.save(weights, header))


def train(
    out: Path,
    recipe: Recipe,
    progress: Callable[[str], None],
    utterances: Sequence[Utterance] | None = None,
) -> dict[str, Any]:
    """Make the corpus, spoil it, train, write `out` and its recipe as JSON beside it; returns what the JSON holds."""
    if utterances is None:
        utterances = training_utterances(recipe.seed, without_flite=recipe.without_flite, scale=recipe.corpus_scale)
    pool = make_pool(utterances, recipe, progress)
    network = fit(pool, recipe, progress)
    gain, floor = calibrate(network, pool, recipe)
    save(network, recipe, gain, floor, out)
    record = {
        "recipe": asdict(recipe),
        "parameters": sum(p.numel() for p in network.parameters() if p.requires_grad),
        "corpus": {
            "utterances": len(utterances),
            "minutes": round(sum(len(u.samples) for u in utterances) / ANALYSIS_HZ / 60, 1),
            "pool_minutes": round(len(pool.mel) / 6000, 1),
            "voices": sorted({u.voice for u in utterances}),
        },
    }
    write_record(out, record)
    return record


def write_record(weights: Path, record: dict[str, Any]) -> None:
    """Recipe, corpus and score of a weights file, beside it."""
    weights.with_suffix(".json").write_text(json.dumps(record, indent=2) + "\n")
