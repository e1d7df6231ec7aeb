"""From weights to TensorRT plans: graphs exported and proven, plans built, each where it is not there yet."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from engines.backends.plan_cache import PlanCache, Stored
from engines.backends.tensorrt_api import TensorRt
from engines.backends.tensorrt_build import build, profiles
from engines.errors import EngineContract, EngineUnavailable
from engines.musetalk.artefacts import Artefacts, Proven, plan_key
from engines.musetalk.export import contract_of, export
from engines.musetalk.stages import Networks
from engines.musetalk.verifying import Demand, verify

OpenNetworks = Callable[[str], Networks]
"""What a stage needs, in float32; see verifying.verify."""


@dataclass(frozen=True, slots=True)
class Bench:
    """Where graphs and plans lie and how they are made."""

    artefacts: Artefacts
    plans: PlanCache
    open_networks: OpenNetworks
    demand: Demand
    say: Callable[[str], None] = lambda line: None
    """Hears what is done: a whole build takes minutes."""

    def proven(self, stage: str, precision: str) -> Proven:
        """A stage's graph, exported and compared with torch unless it already was.

        Raises EngineContract (it misses its gate), EngineUnavailable.
        """
        path = self.artefacts.path(stage, precision)
        try:
            return self.artefacts.verified(stage, precision)
        except EngineUnavailable:
            self.say(f"{path.name}: exporting")
            self._export(stage, precision, path)
        except EngineContract:
            pass  # there, and not proven as it is now
        self.say(f"{path.name}: comparing with torch")
        finding = verify(path, self.open_networks, self.demand)
        lines = list(finding.lines())
        for line in lines:
            self.say(line)
        if not finding.passed:
            raise EngineContract(path.name, "a graph within its gate", lines[-1])
        return self.artefacts.verified(stage, precision)

    def plan(self, graph: Proven, stage: str, precision: str, api: TensorRt, buckets: tuple[int, ...]) -> Stored:
        """A graph's plan, out of the cache where it is there. Raises EngineContract, EngineUnavailable."""
        contract = contract_of(stage)
        self.say(f"{graph.path.name}: plan of {api.backend} {api.version}")
        key = plan_key(stage, graph.sha256, api, precision, buckets)
        return self.plans.ensure(key, lambda: build(api, graph.path, contract, profiles(contract, buckets)))

    def _export(self, stage: str, precision: str, path: Path) -> None:
        """Beside its place first: what an interrupted export leaves is no graph."""
        aside = path.parent / f".{path.name}.part"
        shutil.rmtree(aside, ignore_errors=True)
        export(stage, aside / path.name, self.open_networks(stage), precision)
        for part in sorted(aside.iterdir(), reverse=True):  # the weights before the graph that names them
            part.replace(path.parent / part.name)
        aside.rmdir()
