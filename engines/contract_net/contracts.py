"""The contract network's stages: MuseTalk's tensors, name by name."""

from __future__ import annotations

from engines.contract import TensorContract
from engines.stage import StageContract

WINDOW_SAMPLES = 3200

SAMPLES = TensorContract("samples", ("B", WINDOW_SAMPLES), "float32", "batch, sample at 16 kHz", "-1..1", "streamer")
AUDIO = TensorContract("audio", ("B", 50, 384), "float32", "batch, token: 10 steps x 5, feature", "any", "features")
LATENT = TensorContract(
    "latent", ("B", 8, 32, 32), "float32", "batch, channel: 0..3 masked, 4..7 reference, row, column", "any", "avatar"
)
DENOISED = TensorContract("denoised", ("B", 4, 32, 32), "float32", "batch, channel, row, column", "any", "unet")
FACES = TensorContract("faces", ("B", 256, 256, 3), "uint8", "batch, row, column, R G B", "0..255", "decoder")

CONTRACTS = (
    StageContract("features", (SAMPLES,), (AUDIO,)),
    StageContract("unet", (LATENT, AUDIO), (DENOISED,)),
    StageContract("decoder", (DENOISED,), (FACES,)),
)
