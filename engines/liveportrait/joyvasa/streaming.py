"""Sound to motion while it is still being spoken: short blocks of the frame grid, each going on from the one before.

Nothing is asked of the caller but the sound around a frame: a block is known again by that sound, and so is the block
before it. The same sound at the same place gives the same motion for as long as it is remembered.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from engines.errors import EngineOutput
from engines.liveportrait.bound import rehearse
from engines.liveportrait.joyvasa.audio import FRAME_SAMPLES, audio_features
from engines.liveportrait.joyvasa.checkpoint import Talker
from engines.liveportrait.joyvasa.contracts import contracts
from engines.liveportrait.joyvasa.denoiser import DenoiserSizes
from engines.liveportrait.joyvasa.motion_generator import Context, Guidance
from engines.liveportrait.joyvasa.sequence import seeded_noise
from engines.liveportrait.joyvasa.speech_encoder import encoder_of
from engines.stage import StageContract

F32 = npt.NDArray[np.float32]
_REMEMBERED_BLOCKS = 256
_LOUD = 0.01
"""Root mean square of a frame in which somebody speaks, at the least: -40 dB."""
_EASE_BEFORE, _EASE_AFTER = 4, 5
_GAPS = 1.5
"""Speech is loud in two frames of three."""


@dataclass(frozen=True, slots=True)
class StreamSettings:
    """How sound is cut into blocks. The published windows of 100 frames would make a listener wait four seconds."""

    block_frames: int = 5
    """Frames that are sampled at once; the first of them needs all the others' sound."""
    heard_frames: int = 45
    """Sound before a block that the speech encoder hears too."""
    margin_frames: int = 1
    """Sound after a block that it hears too; motion of it is not kept."""
    guidance: Guidance = field(default_factory=lambda: Guidance(scale=2.0, steps=10))
    smoothing: float = 0.05
    """Of pose, scale and shift, from frame to frame; 1 does not smooth."""
    seed: int = 0

    @property
    def lookahead_frames(self) -> int:
        """Sound after its own that a frame needs at the most."""
        return self.block_frames - 1 + self.margin_frames

    @property
    def context_frames(self) -> int:
        """Sound before its own that a frame needs at the most."""
        return self.heard_frames + self.block_frames - 1

    @property
    def sound_frames(self) -> int:
        """Sound of one block, from the first that is heard to the last."""
        return self.heard_frames + self.block_frames + self.margin_frames


@dataclass(frozen=True, slots=True, eq=False)
class Moment:
    """One frame's motion."""

    row: Tensor
    """(1, 70) coefficients, on the CPU."""
    first: Tensor
    """(1, 70) of the frame with which the unbroken speech around it began."""


@dataclass(frozen=True, slots=True, eq=False)
class _Block:
    rows: Tensor
    """(block_frames, 70), smoothed."""
    first: Tensor
    raw: Tensor
    """(1, P, 70): the last frames as they were sampled, context for the next block."""


class MotionStream:
    """Motion of frames from the sound around them. Not for two threads at once."""

    def __init__(self, talker: Talker, settings: StreamSettings, device: str = "cpu") -> None:
        """Raises EngineContract where the networks do not take windows of this length."""
        self.settings = settings
        self._generator = talker.generator.to(device)
        self._encode = encoder_of(talker.encoder.to(device))
        self._device = torch.device(device)
        self._blocks: _Remembered = _Remembered()
        self._tails: _Remembered = _Remembered()
        rehearse(stream_contracts(self._generator.sizes, settings)[-1], self._generator.denoising_net)

    def at(self, index: int, samples: F32) -> Moment:
        """Frame `index` of the grid; `samples` are its own sound with context and look-ahead of the settings.

        Raises EngineOutput where the motion is not finite, twice.
        """
        settings = self.settings
        number, offset = divmod(index, settings.block_frames)
        begin = (settings.block_frames - 1 - offset) * FRAME_SAMPLES
        sound = samples[begin : begin + settings.sound_frames * FRAME_SAMPLES]
        key = _key(number, sound)
        block = self._blocks.get(key)
        if block is None:
            block = self._made(number, sound)
            self._blocks.put(key, block)
            self._tails.put(_key(number + 1, sound[settings.block_frames * FRAME_SAMPLES :]), block)
        return Moment(block.rows[offset : offset + 1], block.first)

    def _made(self, number: int, sound: F32) -> _Block:
        shared = (self.settings.heard_frames + self.settings.margin_frames) * FRAME_SAMPLES
        before = self._tails.get(_key(number, sound[:shared]))
        for attempt in range(2):
            raw = self._sampled(number, sound, before, attempt)
            if bool(torch.isfinite(raw).all()):
                return self._joined(raw, before)
        raise EngineOutput("liveportrait", "the motion of a block of frames is not finite")

    def _sampled(self, number: int, sound: F32, before: _Block | None, attempt: int) -> Tensor:
        """(block_frames, 70) on the CPU."""
        settings, generator = self.settings, self._generator
        draw = seeded_noise((settings.seed << 32) + 2 * number + attempt)

        def noise(shape: tuple[int, ...]) -> Tensor:
            return draw(shape).to(self._device)

        with torch.inference_mode():
            heard = torch.from_numpy(np.ascontiguousarray(sound, np.float32))[None].to(self._device)
            features = audio_features(generator, self._encode, heard, settings.sound_frames)
            context = generator.start()
            if before is not None:
                past = features[:, : settings.heard_frames][:, -generator.sizes.n_prev_motions :]
                context = Context(before.raw.to(self._device), past)
            window = features[:, settings.heard_frames :]
            begin = noise((1, window.shape[1], generator.sizes.motion_feat_dim))
            motion = generator.sample(window, context, begin, noise, settings.guidance)
        return motion[0, : settings.block_frames].float().cpu()

    def _joined(self, raw: Tensor, before: _Block | None) -> _Block:
        """A block after the one before it: pose drawn on smoothly, the beginning of speech remembered."""
        context = self._generator.sizes.n_prev_motions
        past = self._generator.start_motion_feat[0].detach().cpu() if before is None else before.raw[0]
        rows, last = raw.clone(), raw[0] if before is None else before.rows[-1]
        for i in range(len(rows)):
            rows[i, _POSE] = last[_POSE] + self.settings.smoothing * (raw[i, _POSE] - last[_POSE])
            last = rows[i]
        first = rows[:1] if before is None else before.first
        return _Block(rows, first, torch.cat([past, raw])[-context:][None])


_POSE = slice(63, 70)


class _Remembered:
    """Blocks by the sound they came of; the oldest makes room."""

    def __init__(self) -> None:
        self._blocks: OrderedDict[bytes, _Block] = OrderedDict()

    def get(self, key: bytes) -> _Block | None:
        return self._blocks.get(key)

    def put(self, key: bytes, block: _Block) -> None:
        self._blocks[key] = block
        while len(self._blocks) > _REMEMBERED_BLOCKS:
            self._blocks.popitem(last=False)


def stream_contracts(sizes: DenoiserSizes, settings: StreamSettings) -> tuple[StageContract, ...]:
    """JoyVASA's stages as the stream runs them: hubert and audio_features on a block's whole sound, then denoiser."""
    heard = contracts(_with_window(sizes, settings.sound_frames))
    return *heard[:2], contracts(_with_window(sizes, settings.block_frames + settings.margin_frames))[-1]


def presence(samples: F32, context_samples: int) -> float:
    """0..1: how much somebody speaks around a frame; it comes and goes over ten frames, pauses in speech aside."""
    own = context_samples // FRAME_SAMPLES
    frames = samples.reshape(-1, FRAME_SAMPLES)[max(0, own - _EASE_BEFORE) : own + 1 + _EASE_AFTER]
    loud = np.sqrt(np.mean(np.square(frames), axis=1)) > _LOUD
    share = min(1.0, _GAPS * float(loud.mean()))
    return share * share * (3.0 - 2.0 * share)


def _with_window(sizes: DenoiserSizes, frames: int) -> DenoiserSizes:
    return DenoiserSizes(
        frames, sizes.n_prev_motions, sizes.feature_dim, sizes.motion_feat_dim,
        sizes.n_layers, sizes.n_heads, sizes.mlp_ratio,
    )  # fmt: skip


def _key(number: int, sound: F32) -> bytes:
    found = hashlib.blake2b(number.to_bytes(8, "little"), digest_size=16)
    found.update(np.ascontiguousarray(sound).data)
    return found.digest()
