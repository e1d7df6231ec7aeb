"""The contract network in numpy: MuseTalk's tensors in a small, made-up shape. Not for looks: it was never trained.

denoise: latent (B, 8, 32, 32) and audio (B, 50, 384) to (B, 4, 32, 32); decode: that to (B, 256, 256, 3) u8 RGB.
"""

from __future__ import annotations

import cv2
import numpy as np
import numpy.typing as npt

from engines.contract_net.weights import BANDS_A_STEP, HEAD, LAYERS, TOKEN, WIDTH, weights
from engines.logmel import HOP_SAMPLES, log_mel

U8 = npt.NDArray[np.uint8]
F16 = npt.NDArray[np.float16]
F32 = npt.NDArray[np.float32]

SIDE = 32
PATCH_PX = 256
SCALE = 0.5
"""Latents are pixel values in -1..1 times this."""
STEPS, STEP_SAMPLES = 10, 320
TOKENS = STEPS * LAYERS
MOUTH_MOVE = 0.35
"""How far sound moves a latent value in the middle of the mouth, at most."""
DETAIL = 0.15


def encode(crops: U8) -> F16:
    """(B, 256, 256, 3) u8 RGB to (B, 8, 32, 32) f16: 0..3 with the lower half black, 4..7 of the whole."""
    pictures = crops.astype(np.float32) / 127.5 - 1.0
    masked = pictures.copy()
    masked[:, PATCH_PX // 2 :] = -1.0
    return np.concatenate([_pooled(masked), _pooled(pictures)], axis=1).astype(np.float16)


def features(samples: F32) -> F32:
    """(B, 3200) f32 at 16 kHz, ten steps of 20 ms, to (B, 50, 384) f32, step-major: five tokens a step."""
    project = weights()["audio.project.weight"]
    made = np.empty((len(samples), STEPS, LAYERS, TOKEN), np.float32)
    for row, sound in zip(made, samples, strict=True):
        mel = log_mel(sound).T.reshape(STEPS, BANDS_A_STEP)
        row[...] = np.tanh(np.einsum("sb,lbt->slt", mel, project, optimize=True))
    return made.reshape(len(samples), TOKENS, TOKEN)


def denoise(latent: F32, audio: F32) -> F32:
    """(B, 8, 32, 32) and (B, 50, 384), f32, to (B, 4, 32, 32) f32."""
    return np.stack([_denoise_one(one, tokens) for one, tokens in zip(latent, audio, strict=True)])


def decode(latent: F32) -> U8:
    """(B, 4, 32, 32) f32 to (B, 256, 256, 3) u8 RGB."""
    return np.stack([_decode_one(one) for one in latent])


def mouth_map() -> F32:
    """(32, 32) f32 0..1: where sound may move anything, a soft spot in the lower half."""
    rows, columns = np.mgrid[0:SIDE, 0:SIDE].astype(np.float32)
    spot = np.exp(-(((rows - 22.5) / 4.5) ** 2) - ((columns - 15.5) / 6.5) ** 2)
    spot[: SIDE // 2] = 0.0
    return np.asarray(spot, dtype=np.float32)


def _denoise_one(latent: F32, tokens: F32) -> F32:
    w = weights()
    x = _silu(_conv(latent, w["conv_in.weight"]))
    keys, values = tokens @ w["audio.key.weight"], tokens @ w["audio.value.weight"]
    queries = x.reshape(WIDTH, -1).T @ w["query.weight"]
    scores = queries @ keys.T / np.float32(np.sqrt(HEAD))
    scores = np.exp(scores - scores.max(axis=1, keepdims=True))
    heard = (scores / scores.sum(axis=1, keepdims=True)) @ values
    x = x + heard.T.reshape(WIDTH, SIDE, SIDE)
    for pair in (0, 2):
        x = x + _conv(_silu(_conv(x, w[f"block.{pair}.weight"])), w[f"block.{pair + 1}.weight"])
    moved = np.tanh(_conv(_silu(x), w["conv_out.weight"])) * np.float32(MOUTH_MOVE * SCALE)
    return np.asarray(latent[4:] + moved * mouth_map(), dtype=np.float32)


def _decode_one(latent: F32) -> U8:
    w = weights()
    x = latent / np.float32(SCALE)
    detail = np.tanh(_conv(_silu(_conv(x, w["decoder.in.weight"])), w["decoder.out.weight"]))
    small = np.ascontiguousarray((x[:3] + np.float32(DETAIL) * mouth_map() * detail).transpose(1, 2, 0))
    large = cv2.resize(small, (PATCH_PX, PATCH_PX), interpolation=cv2.INTER_LINEAR)
    return np.asarray(np.rint(np.clip(np.asarray(large) * 127.5 + 127.5, 0.0, 255.0)), dtype=np.uint8)


def _pooled(pictures: F32) -> F32:
    """(B, 256, 256, 3) to (B, 4, 32, 32): means of 8 x 8 blocks, and how much brightness varies inside them."""
    size = PATCH_PX // SIDE
    blocks = pictures.reshape(len(pictures), SIDE, size, SIDE, size, 3)
    spread = blocks.mean(axis=5).std(axis=(2, 4))
    pooled = np.concatenate([blocks.mean(axis=(2, 4)), spread[..., None]], axis=3)
    return np.asarray(pooled.transpose(0, 3, 1, 2) * SCALE, dtype=np.float32)


def _conv(x: F32, weight: F32) -> F32:
    """3 x 3, zeros around: nine matrix products, one a tap."""
    height, width = x.shape[1:]
    padded = np.pad(x, ((0, 0), (1, 1), (1, 1)))
    taps = [padded[:, i : i + height, j : j + width].reshape(len(x), -1) for i in range(3) for j in range(3)]
    out = weight.transpose(0, 2, 3, 1).reshape(len(weight), -1) @ np.concatenate(taps)
    return np.asarray(out.reshape(-1, height, width), dtype=np.float32)


def _silu(x: F32) -> F32:
    return np.asarray(x / (1.0 + np.exp(-x)), dtype=np.float32)


assert STEP_SAMPLES == 2 * HOP_SAMPLES
