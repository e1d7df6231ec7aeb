"""A network under its contract: checked once with shapes alone when it is bound, then at every call."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from engines.contract import TensorContract
from engines.errors import EngineContract
from engines.stage import StageContract


class BoundStage:
    """Runs one network; tensors go in and come out by name. Gradients are off, the network is in inference mode."""

    def __init__(self, contract: StageContract, network: nn.Module, device: str = "cpu") -> None:
        self.contract = contract
        self._network = network.eval().to(device)
        self._device = torch.device(device)
        rehearse(contract, self._network)

    def __call__(self, **tensors: Tensor) -> dict[str, Tensor]:
        """The network's outputs, on its device. Raises EngineContract where a tensor does not fit."""
        axes = self.contract.check_inputs(tensors)
        moved = [tensors[c.name].to(self._device) for c in self.contract.inputs]
        with torch.inference_mode():
            outputs = _named(self.contract, self._network(*moved))
        self.contract.check_outputs(outputs, axes)
        return outputs


def rehearse(contract: StageContract, network: nn.Module) -> None:
    """Send tensors without data through the network and compare what comes out. Raises EngineContract."""
    names = sorted({size for c in contract.inputs for size in c.shape if isinstance(size, str)})
    axes = {name: 1 for name in names}
    inputs = {c.name: _shape_only(c, axes) for c in contract.inputs}
    contract.check_inputs(inputs)
    state = {name: value.to("meta") for name, value in network.state_dict(keep_vars=True).items()}
    try:
        with torch.inference_mode():
            found = torch.func.functional_call(network, state, tuple(inputs[c.name] for c in contract.inputs))
    except (RuntimeError, ValueError) as error:
        raise EngineContract(contract.stage, "a network that takes the stage's inputs", str(error)) from error
    contract.check_outputs(_named(contract, found), axes)


def _shape_only(contract: TensorContract, axes: Mapping[str, int]) -> Tensor:
    shape = [axes[size] if isinstance(size, str) else size for size in contract.shape]
    return torch.empty(shape, dtype=getattr(torch, contract.dtype), device="meta")


def _named(contract: StageContract, outputs: Tensor | dict[str, Tensor]) -> dict[str, Tensor]:
    return outputs if isinstance(outputs, dict) else {contract.outputs[0].name: outputs}
