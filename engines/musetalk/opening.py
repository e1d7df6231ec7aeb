"""From options to a MuseTalk engine: which weights, which backend, which device."""

from __future__ import annotations

import copy
import logging
from collections.abc import Collection, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import nn

from avatars.precompile import FaceParser, LatentEncoder, Makers
from engines.backends.chain import Chain
from engines.backends.onnx_chain import OnnxChain
from engines.backends.plan_cache import PlanCache
from engines.backends.torch_chain import TorchChain
from engines.errors import EngineUnavailable
from engines.musetalk import own_plans, weights
from engines.musetalk.artefacts import Artefacts, plan_key
from engines.musetalk.engine import BUCKETS, NAME, MuseTalkEngine, Parts
from engines.musetalk.features import FeatureExtractor
from engines.musetalk.latents import VaeLatents
from engines.musetalk.parsing import Parser
from engines.musetalk.stages import CONTRACTS, FULL, PARTS, REDUCED, DecoderStage, Networks, TinyDecoderStage, UnetStage

_TENSORRT = ("tensorrt-rtx", "tensorrt")
AUTO = "auto"
BACKENDS = (AUTO, "torch", "onnx", *_TENSORRT)
DECODERS = ("full", "tiny")
SEEDED_REVISION = "seeded"
logger = logging.getLogger(__name__)
_LIVE = CONTRACTS[1:]
_DTYPES = {"fp32": torch.float32, "fp16": torch.float16}


def open_engine(
    models: Path,
    *,
    backend: str = AUTO,
    device: str | None = None,
    precision: str | None = None,
    **more: Any,
) -> MuseTalkEngine:
    """An engine over the weights in MODELS/musetalk.

    backend: auto takes plans that `engines build` made for a GPU, torch where there are none.
    precision: fp16 on a GPU and in plans, fp32 on a CPU unless said otherwise.
    More options: `seeded` and `reduced` (made-up weights, small ones), `decoder` (full or tiny), `short_audio`,
    `buckets`, `artefacts` (folder of exported graphs), `plans` (folder of the plan cache), `own_plans` (plans built
    elsewhere, see own_plans.OwnPlan).
    Raises EngineUnavailable, EngineContract.
    """
    options = Options(models, more)
    device = device or ("cuda" if torch.cuda.is_available() else "cpu")
    precision = precision or ("fp32" if device == "cpu" and backend not in _TENSORRT else "fp16")
    if precision not in _DTYPES:
        raise EngineUnavailable(NAME, f"there is no precision {precision!r}", f"Choose one of: {', '.join(_DTYPES)}.")
    if backend not in BACKENDS:
        raise EngineUnavailable(NAME, f"there is no backend {backend!r}", f"Choose one of: {', '.join(BACKENDS)}.")
    if options.own and backend not in (AUTO, *_TENSORRT):
        raise EngineUnavailable(NAME, f"own_plans are not for {backend}", f"Take {' or '.join(_TENSORRT)}.")
    planned = _planned(backend, options, device, precision)
    # Plans and graphs have the UNet's weights: only torch needs them again.
    by_torch = planned is None and backend != "onnx"
    if by_torch and device == "cpu":
        options.buckets = options.buckets_or((1,))
    nets = options.networks(PARTS if by_torch else PARTS - {"unet"})
    if device != "cpu":
        nets.whisper.to(_DTYPES[precision])
    own_unet = options.own.get("unet")
    features = FeatureExtractor(
        nets.whisper, device, short=bool(options.get("short_audio", False)),
        positioned=own_unet is not None and not own_unet.positions_inside,
    )  # fmt: skip
    parts = Parts(
        features=features,
        chain=planned or _chain(nets, options, device, precision, by_torch=by_torch),
        encoder=lambda: _encoder(nets, options, device),
        parser=lambda: _parser(options, device),
        revision=options.revision(),
    )
    return MuseTalkEngine(parts)


def open_makers(models: Path, *, device: str | None = None, **more: Any) -> Makers:
    """What the engine brings to precompilation, without the engine: the autoencoder and the face parser alone.

    Options as for `open_engine`. Raises EngineUnavailable, EngineContract.
    """
    options = Options(models, more)
    device = device or ("cuda" if torch.cuda.is_available() else "cpu")
    nets = options.networks({"vae"})
    return Makers(latents=_encoder(nets, options, device), parser=_parser(options, device), official_margin=True)


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
        self.own = own_plans.read(given.get("own_plans", {}))
        self.buckets = self.buckets_or(BUCKETS)

    def get(self, name: str, default: Any) -> Any:
        return self._given.get(name, default)

    def buckets_or(self, usual: tuple[int, ...]) -> tuple[int, ...]:
        """The batch sizes asked for. Large ones gain a CPU nothing and cost it minutes to warm up: there it is one."""
        return _buckets(self._given.get("buckets", usual))

    @property
    def graphs(self) -> tuple[str, ...]:
        """Names of the live stages' graphs."""
        return ("unet", "tiny" if self._tiny else "decoder")

    def networks(self, parts: Collection[str]) -> Networks:
        if self.get("seeded", False):
            return weights.seeded(REDUCED if self.get("reduced", False) else FULL, parts, tiny=self._tiny)
        made = weights.load(self.folder, parts)
        return replace(made, tiny=weights.load_tiny(self.folder.parent / weights.TINY_FILE)) if self._tiny else made

    def revision(self) -> str:
        """Of the latent encoder."""
        if self.get("seeded", False):
            return SEEDED_REVISION
        return weights.revision_of(self.folder / weights.VAE_FILE)


def _chain(nets: Networks, options: Options, device: str, precision: str, *, by_torch: bool) -> Chain:
    if not by_torch:
        pairs = zip(_LIVE, options.graphs, strict=True)
        graphs = [(contract, options.artefacts.verified(name, precision).path) for contract, name in pairs]
        return OnnxChain(graphs, options.buckets)
    nets.unet.fold_time()
    last: nn.Module = TinyDecoderStage(nets.tiny) if nets.tiny is not None else DecoderStage(nets.vae)
    if _DTYPES[precision] != torch.float32 or device != "cpu":
        last = copy.deepcopy(last)  # the latent encoder shares weights with it, and keeps its own precision
    networks = zip(_LIVE, (UnetStage(nets.unet), last), strict=True)
    return TorchChain(list(networks), options.buckets, device, _DTYPES[precision])


def _planned(backend: str, options: Options, device: str, precision: str) -> Chain | None:
    """Plans, where they are asked for, or where nothing is and there are some. Raises EngineUnavailable."""
    if backend in _TENSORRT:
        return _tensorrt(backend, options, precision)
    if backend != AUTO or not (options.own or (device != "cpu" and options.plans.root.is_dir())):
        return None
    missing = []
    for name in _TENSORRT:
        try:
            chain = _tensorrt(name, options, precision)
        except EngineUnavailable as error:
            missing.append(error)
            logger.info("backend_passed_over", extra={"backend": name, "reason": str(error)})
        else:
            logger.info("backend_chosen", extra={"backend": name, "precision": precision})
            return chain
    if options.own:
        raise missing[0]
    return None


def _tensorrt(backend: str, options: Options, precision: str) -> Chain:
    from engines.backends import tensorrt_api
    from engines.backends.tensorrt_chain import Plan, TensorRtChain

    api = tensorrt_api.find(backend)
    plans = []
    for contract, name in zip(_LIVE, options.graphs, strict=True):
        own = options.own.get(contract.stage)
        if own is not None:
            plans.append(Plan(contract, own.path, own.names))
            continue
        graph = options.artefacts.verified(name, precision)
        stored = options.plans.get(plan_key(name, graph.sha256, api, precision, options.buckets))
        if stored is None:
            words = f"--backend {backend} --buckets {','.join(map(str, options.buckets))} --plans {options.plans.root}"
            remedy = f"Run `liveanchor engines build {graph.path} {words}` first."
            raise EngineUnavailable(backend, f"there is no plan of {graph.path.name} for these batch sizes", remedy)
        plans.append(Plan(contract, stored.path))
    return TensorRtChain(api, plans, options.buckets)


def _buckets(given: Any) -> tuple[int, ...]:
    """Ascending, as every user of them expects. Raises EngineUnavailable."""
    sizes = given if isinstance(given, list | tuple) else ()
    if not sizes or not all(type(size) is int and 1 <= size <= BUCKETS[-1] for size in sizes):
        remedy = f"Give whole numbers from 1 to {BUCKETS[-1]}, such as {list(BUCKETS)}."
        raise EngineUnavailable(NAME, f"{given!r} are no batch sizes", remedy)
    return tuple(sorted(set(sizes)))


def _encoder(nets: Networks, options: Options, device: str) -> LatentEncoder:
    return VaeLatents(nets.vae.float(), options.revision(), device)


def _parser(options: Options, device: str) -> FaceParser | None:
    if options.get("seeded", False):
        return None
    network = weights.load_parser(options.folder)
    return None if network is None else Parser(network, device)
