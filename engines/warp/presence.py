"""Trains the last word of the mouth network: whether one voice stands out of what it hears. Torch, like `training`."""

from __future__ import annotations

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
from engines.warp.corpus import Utterance
from engines.warp.speech import PRESENCE, MouthNet, header_of, log_mel, mel_filters
from engines.warp.training import Recipe, spoilt_take

F16 = npt.NDArray[np.float16]
F32 = npt.NDArray[np.float32]
Draw = np.random.Generator


@dataclass(frozen=True, slots=True)
class PresenceRecipe:
    """Everything that decides these weights, on top of the network's own."""

    seed: int = 11
    width: int = 32
    talkers: tuple[int, int] = (5, 14)
    one_voice_share: float = 0.5
    """Share of the crowds whose talkers all have the same voice: the hardest to tell from one talker."""
    noisy_share: float = 0.6
    """Share of the utterances in front of strong noise or a crowd besides: that must not be taken for nobody."""
    noisy_snr_db: tuple[float, float] = (4.0, 18.0)
    quiet_share: float = 1.2
    """Takes without a talker, for each utterance."""
    epochs: int = 8
    batch_rows: int = 1024
    learning_rate: float = 2e-3
    weight_decay: float = 1e-3
    speech_weight: float = 2.0
    """How much worse it is to shut the mouth of somebody who speaks than to open it for nobody."""


@dataclass(frozen=True, slots=True, eq=False)
class Rows:
    """What the network hears every 10 ms of all takes, and how it should be judged."""

    heard: F16
    """(n, 3 * channels), as `MouthNet.layers` gives it."""
    speaks: F32
    """(n,) 1 where somebody speaks, 0 where nobody does."""
    weight: F32
    """(n,) how much a row counts: an open mouth, true or not, most; the pauses within speech not at all."""


def _company(count: int, crowd: Sequence[Utterance], recipe: PresenceRecipe, draw: Draw) -> F32:
    """Several talkers at once, none nearer than the others."""
    low, high = recipe.talkers
    talkers = int(draw.integers(low, high))
    if draw.random() < recipe.one_voice_share:
        voices = sorted({u.voice for u in crowd})
        voice = voices[int(draw.integers(0, len(voices)))]
        crowd = [u for u in crowd if u.voice == voice]
    return augment.babble([crowd[i].samples for i in draw.integers(0, len(crowd), talkers)], count, draw)


def _nobody(crowd: Sequence[Utterance], recipe: PresenceRecipe, draw: Draw) -> F32:
    """Log-mel of a few seconds in which nobody speaks to the microphone."""
    count = int(draw.uniform(2.0, 4.0) * ANALYSIS_HZ)
    kind = draw.random()
    if kind < 0.6:
        sound = _company(count, crowd, recipe, draw)
    elif kind < 0.7:
        sound = augment.coloured_noise(count, draw.uniform(0.0, 2.0), draw)
    else:
        sound = augment.non_speech(str(draw.choice((*augment.NON_SPEECH, "breath", "music"))), count, draw)
    if draw.random() < 0.5:
        sound = augment.equalise(sound, draw)
    if draw.random() < 0.4:
        sound = augment.room(sound, draw)
    gain = 10.0 ** (draw.uniform(-60.0, -10.0) / 20.0) / augment.loud_rms(sound)
    sound = np.clip(sound * np.float32(gain), -1.0, 1.0)
    if draw.random() < 0.15:
        sound = augment.through_codec(sound, str(draw.choice(augment.CODECS)), draw)
    return log_mel(sound, mel_filters(draw.uniform(0.85, 1.2)))


def _noisy(utterance: Utterance, crowd: Sequence[Utterance], recipe: PresenceRecipe, draw: Draw) -> Utterance:
    """Some utterances in front of strong noise or a crowd."""
    if draw.random() >= recipe.noisy_share:
        return utterance
    count = len(utterance.samples)
    if draw.random() < 0.5:
        noise = augment.coloured_noise(count, draw.uniform(-0.2, 1.8), draw)
    else:
        noise = _company(count, crowd, recipe, draw)
    noisy = augment.with_noise(utterance.samples, noise, draw.uniform(*recipe.noisy_snr_db))
    return Utterance(noisy, utterance.phones, utterance.voice)


def listen(
    net: MouthNet, utterances: Sequence[Utterance], recipe: PresenceRecipe, progress: Callable[[str], None]
) -> Rows:
    """Each utterance once, spoilt as in training, and about as much sound in which nobody speaks."""
    draw = np.random.default_rng(recipe.seed)
    spoiling = Recipe()
    heard: list[F16] = []
    speaks: list[F32] = []
    weight: list[F32] = []
    past = net.history - net.lookahead_rows
    for number, i in enumerate(draw.permutation(len(utterances))):
        mel, shapes, _ = spoilt_take(_noisy(utterances[i], utterances, recipe, draw), utterances, spoiling, draw)
        rows = net.layers(mel[None])[0]
        true = shapes[past : past + len(rows)]
        heard.append(rows.astype(np.float16))
        speaks.append(np.ones(len(rows), np.float32))
        weight.append(recipe.speech_weight * true.max(axis=1))
        for _ in range(draw.poisson(recipe.quiet_share)):
            rows = net.layers(_nobody(utterances, recipe, draw)[None])[0]
            heard.append(rows.astype(np.float16))
            speaks.append(np.zeros(len(rows), np.float32))
            weight.append(0.1 + net.opening(rows))
        if number % 200 == 199:
            progress(f"presence: {number + 1} of {len(utterances)} utterances heard")
    return Rows(np.concatenate(heard), np.concatenate(speaks), np.concatenate(weight))


def fit(rows: Rows, recipe: PresenceRecipe, progress: Callable[[str], None]) -> dict[str, F16]:
    """The weights of the two layers, by name."""
    torch.manual_seed(recipe.seed)
    torch.set_num_threads(1)
    draw = np.random.default_rng(recipe.seed + 1)
    sample = rows.heard[:: max(1, len(rows.heard) // 100_000)].astype(np.float32)
    mean, scale = sample.mean(axis=0), 1.0 / (sample.std(axis=0) + 1e-3)
    hidden, out = nn.Linear(len(mean), recipe.width), nn.Linear(recipe.width, 1)
    optimiser = torch.optim.AdamW(
        [*hidden.parameters(), *out.parameters()], recipe.learning_rate, weight_decay=recipe.weight_decay
    )
    steps = recipe.epochs * (len(rows.heard) // recipe.batch_rows)
    running = 0.0
    for step in range(steps):
        at = np.sort(draw.integers(0, len(rows.heard), recipe.batch_rows))
        heard = torch.from_numpy((rows.heard[at].astype(np.float32) - mean) * scale)
        for group in optimiser.param_groups:
            group["lr"] = recipe.learning_rate * max(0.01, 0.5 * (1.0 + np.cos(np.pi * step / steps)))
        said = out(torch.relu(hidden(heard)))[:, 0]
        losses = nn.functional.binary_cross_entropy_with_logits(
            said, torch.from_numpy(rows.speaks[at]), torch.from_numpy(rows.weight[at]), reduction="sum"
        )
        loss = losses / float(rows.weight[at].sum())
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        running = 0.99 * running + 0.01 * float(loss.detach()) if step else float(loss.detach())
        if step % 1000 == 999:
            progress(f"presence: step {step + 1} of {steps}: loss {running:.3f}")
    weight, bias = (p.detach().numpy() for p in hidden.parameters())
    last, last_bias = (p.detach().numpy() for p in out.parameters())
    made = (weight * scale, bias - (weight * scale) @ mean, last[0], last_bias)
    return {f"presence.{name}": part.astype(np.float16) for name, part in zip(PRESENCE, made, strict=True)}


def add(
    path: Path, utterances: Sequence[Utterance], recipe: PresenceRecipe, progress: Callable[[str], None]
) -> dict[str, Any]:
    """Train on top of the network in a weights file, which stays as it is, and write both; returns what to record."""
    body = path.read_bytes()
    rows = listen(MouthNet.read(body), utterances, recipe, progress)
    weights = fit(rows, recipe, progress)
    path.write_bytes(safetensors.numpy.save({**safetensors.numpy.load(body), **weights}, header_of(body)))
    return {
        "recipe": asdict(recipe),
        "parameters": sum(part.size for part in weights.values()),
        "minutes": {
            "speech": round(float(rows.speaks.sum()) / 6000, 1),
            "nobody": round(float((1.0 - rows.speaks).sum()) / 6000, 1),
        },
    }
