"""How much noise each diffusion step adds. Arrays have one entry more than steps; entry 0 is the clean signal."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

_FIRST_BETA, _LAST_BETA = 1e-4, 0.02
_COSINE_OFFSET = 0.008
_BETA_LIMITS = (1e-4, 0.999)


class DiffusionSchedule(nn.Module):
    """betas, alphas and what follows from them, (steps + 1,) f32 each. `kind`: cosine, linear, quadratic, sigmoid."""

    betas: Tensor
    alphas: Tensor
    alpha_bars: Tensor
    sigmas_flex: Tensor
    sigmas_inflex: Tensor

    def __init__(self, steps: int, kind: str = "cosine") -> None:
        super().__init__()
        self.steps = steps
        self.times: tuple[int, ...] = tuple(range(steps + 1))
        """What the denoiser is told at each step: where among the steps it was trained on it stands."""
        self._derive(torch.cat([torch.zeros(1), _betas(steps, kind)]))

    def thinned(self, steps: int) -> DiffusionSchedule:
        """The same course in fewer steps, evenly spread; the first and the last stay. 1 <= steps <= self.steps."""
        made = DiffusionSchedule(steps)
        places = torch.linspace(0, self.steps, steps + 1).round().long()
        made.times = tuple(int(place) for place in places)
        bars = self.alpha_bars[places.to(self.alpha_bars.device)]
        made._derive(torch.cat([torch.zeros_like(bars[:1]), 1 - bars[1:] / bars[:-1]]))
        return made

    def _derive(self, betas: Tensor) -> None:
        alphas = 1 - betas
        alpha_bars = torch.exp(torch.cumsum(torch.log(alphas), 0))
        narrow = torch.zeros_like(betas)
        narrow[1:] = torch.sqrt((1 - alpha_bars[:-1]) / (1 - alpha_bars[1:]) * betas[1:])
        self.register_buffer("betas", betas)
        self.register_buffer("alphas", alphas)
        self.register_buffer("alpha_bars", alpha_bars)
        self.register_buffer("sigmas_flex", torch.sqrt(betas))
        self.register_buffer("sigmas_inflex", narrow)

    def sigma(self, t: int, flexibility: float) -> Tensor:
        """Noise added after step t: between the posterior's own (0) and the forward process' (1)."""
        return self.sigmas_flex[t] * flexibility + self.sigmas_inflex[t] * (1 - flexibility)

    def step(self, noisy: Tensor, clean: Tensor, t: int, noise: Tensor, flexibility: float = 0.0) -> Tensor:
        """The signal at t - 1 from the one at t, its predicted clean version and unit noise (unused at t = 1)."""
        alpha, bar, previous_bar = self.alphas[t], self.alpha_bars[t], self.alpha_bars[t - 1]
        from_noisy = torch.sqrt(alpha) * (1 - previous_bar) / (1 - bar)
        from_clean = torch.sqrt(previous_bar) * (1 - alpha) / (1 - bar)
        mean = from_noisy * noisy + from_clean * clean
        return mean if t == 1 else mean + self.sigma(t, flexibility) * noise


def _betas(steps: int, kind: str) -> Tensor:
    match kind:
        case "linear":
            return torch.linspace(_FIRST_BETA, _LAST_BETA, steps)
        case "quadratic":
            return torch.linspace(_FIRST_BETA**0.5, _LAST_BETA**0.5, steps) ** 2
        case "sigmoid":
            return torch.sigmoid(torch.linspace(-5, 5, steps)) * (_LAST_BETA - _FIRST_BETA) + _FIRST_BETA
        case "cosine":
            x = torch.linspace(0, steps, steps + 1) / steps
            bars = torch.cos((x + _COSINE_OFFSET) / (1 + _COSINE_OFFSET) * math.pi * 0.5) ** 2
            return torch.clip(1 - bars[1:] / bars[:-1], *_BETA_LIMITS)
    raise ValueError(f"no schedule is called {kind!r}")
