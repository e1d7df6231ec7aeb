"""From options to a MuseTalk engine: which weights, which backend, which device."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import nn

from avatars.precompile import FaceParser, LatentEncoder
from engines.backends.chain import Chain
from engines.backends.onnx_chain import OnnxChain
from engines.backends.plan_cache import PlanCache
from engines.backends.torch_chain import TorchChain
from engines.errors import EngineUnavailable
from engines.musetalk import weights
from engines.musetalk.artefacts import Artefacts, plan_key
from engines.musetalk.engine import BUCKETS, NAME, MuseTalkEngine, Parts
from engines.musetalk.features import FeatureExtractor
from engines.musetalk.latents import VaeLatents
from engines.musetalk.parsing import Parser
from engines.musetalk.stages import CONTRACTS, FULL, REDUCED, DecoderStage, Networks, TinyDecoderStage, UnetStage

BACKENDS = ("torch", "onnx", "tensorrt-rtx", "tensorrt")
DECODERS = ("full", "tiny")
SEEDED_REVISION = "seeded"
_LIVE = CONTRACTS[1:]
_DTYPES = {"fp32": torch.float32, "fp16": torch.float16}


def open_engine(
    models: Path,
    *,
    backend: str = "torch",
    device: str | None = None,
    precision: str | None = None,
    **more: Any,
) -> MuseTalkEngine:
    """An engine over the weights in MODELS/musetalk.

    precision: fp16 on a GPU, fp32 on a CPU unless said otherwise. More options: `seeded` and `reduced` (made-up
    weights, small ones), `decoder` (full or tiny), `short_audio`, `buckets`, `artefacts` (folder of exported graphs),
    `plans` (folder of the plan cache), `own_plans` ({stage: {"path", "names"}}, plans built elsewhere).
    Raises EngineUnavailable, EngineContract.
    """
    options = Options(models, more)
    device = device or ("cuda" if torch.cuda.is_available() else "cpu")
    precision = precision or ("fp32" if device == "cpu" else "fp16")
    if precision not in _DTYPES:
        raise EngineUnavailable(NAME, f"there is no precision {precision!r}", f"Choose one of: {', '.join(_DTYPES)}.")
    nets = options.networks()
    if device != "cpu":
        nets.whisper.to(_DTYPES[precision])
    features = FeatureExtractor(nets.whisper, device, short=bool(options.get("short_audio", False)))
    parts = Parts(
        features=features,
        chain=_chain(backend, nets, options, device, precision),
        encoder=lambda: _encoder(nets, options, device),
        parser=lambda: _parser(options, device),
        revision=options.revision(),
    )
    return MuseTalkEngine(parts)


class Options:
    """The rarer options, and what follows from them."""

    _KNOWN = frozenset({"seeded", "reduced", "short_audio", "buckets", "artefacts", "plans", "own_plans", "decoder"})

    def __init__(self, models: Path, given: Mapping[str, Any]) -> None:
        """Raises EngineUnavailable for an unknown option."""
        for name in given.keys() - self._KNOWN:
            remedy = f"Known options: {', '.join(sorted(self._KNOWN))}."
            raise EngineUnavailable(NAME, f"there is no option {name!r}", remedy)
        if given.get("decoder", "full") not in DECODERS:
            raise EngineUnavailable(
                NAME, f"there is no decoder {given['decoder']!r}", f"Choose one of: {', '.join(DECODERS)}."
            )
        self._given = given
        self._tiny = given.get("decoder", "full") == "tiny"
        self.folder = models / NAME
        self.artefacts = Artefacts(Path(given.get("artefacts", models / NAME / "onnx")))
        self.plans = PlanCache(Path(given.get("plans", models / NAME / "plans")))
        self.buckets: tuple[int, ...] = tuple(given.get("buckets", BUCKETS))

    def get(self, name: str, default: Any) -> Any:
        return self._given.get(name, default)

    @property
    def graphs(self) -> tuple[str, ...]:
        """Names of the live stages' graphs."""
        return ("unet", "tiny" if self._tiny else "decoder")

    def networks(self) -> Networks:
        if self.get("seeded", False):
            return weights.seeded(REDUCED if self.get("reduced", False) else FULL, tiny=self._tiny)
        made = weights.load(self.folder)
        return replace(made, tiny=weights.load_tiny(self.folder.parent / weights.TINY_FILE)) if self._tiny else made

    def revision(self) -> str:
        """Of the latent encoder."""
        if self.get("seeded", False):
            return SEEDED_REVISION
        return weights.revision_of(self.folder / weights.VAE_FILE)


def _chain(backend: str, nets: Networks, options: Options, device: str, precision: str) -> Chain:
    if backend == "torch":
        nets.unet.fold_time()
        last = DecoderStage(nets.vae) if nets.tiny is None else TinyDecoderStage(nets.tiny)
        networks: tuple[nn.Module, ...] = (UnetStage(nets.unet), last)
        if _DTYPES[precision] != torch.float32 or device != "cpu":
            networks = tuple(_copied(network) for network in networks)
        return TorchChain(list(zip(_LIVE, networks, strict=True)), options.buckets, device, _DTYPES[precision])
    if backend == "onnx":
        pairs = zip(_LIVE, options.graphs, strict=True)
        graphs = [(contract, options.artefacts.verified(name, precision)) for contract, name in pairs]
        return OnnxChain(graphs, options.buckets)
    if backend in ("tensorrt-rtx", "tensorrt"):
        return _tensorrt(backend, options, precision)
    raise EngineUnavailable(NAME, f"there is no backend {backend!r}", f"Choose one of: {', '.join(BACKENDS)}.")


def _tensorrt(backend: str, options: Options, precision: str) -> Chain:
    from engines.backends import tensorrt_api
    from engines.backends.tensorrt_chain import Plan, TensorRtChain

    api = tensorrt_api.find(backend)
    own: Mapping[str, Any] = options.get("own_plans", {})
    plans = []
    for contract, name in zip(_LIVE, options.graphs, strict=True):
        given = own.get(contract.stage)
        if given is not None:
            plans.append(Plan(contract, Path(given["path"]), given.get("names", {})))
            continue
        graph = options.artefacts.verified(name, precision)
        stored = options.plans.get(plan_key(name, graph, api, precision, options.buckets))
        if stored is None:
            remedy = f"Run `liveanchor engines build {graph} --backend {backend}` first."
            raise EngineUnavailable(backend, f"there is no plan of {graph.name}", remedy)
        plans.append(Plan(contract, stored.path))
    return TensorRtChain(api, plans, options.buckets)


def _encoder(nets: Networks, options: Options, device: str) -> LatentEncoder:
    return VaeLatents(nets.vae.float(), options.revision(), device)


def _parser(options: Options, device: str) -> FaceParser | None:
    if options.get("seeded", False):
        return None
    network = weights.load_parser(options.folder)
    return None if network is None else Parser(network, device)


def _copied(network: nn.Module) -> nn.Module:
    """A copy, so that a cast for the live stages leaves the latent encoder's own weights alone."""
    import copy

    return copy.deepcopy(network)
