"""Golden numbers: where they lie and how an array is compared with what was stored of it."""

from __future__ import annotations

import json
import os
from pathlib import Path

import numpy as np
import pytest


class Goldens:
    """One folder of golden arrays. Large arrays are stored as NAME__shape, NAME__idx, NAME__val, NAME__stats."""

    def __init__(self, folder):
        self.folder = folder

    def load(self, name):
        return np.load(self.folder / name, allow_pickle=False)

    def json(self, name):
        return json.loads((self.folder / name).read_text(encoding="utf-8"))

    def keys(self, network):
        """[(name, shape, dtype)] of a network's published state, in its order."""
        return [(name, tuple(shape), dtype) for name, shape, dtype in self.json(f"keys_{network}.json")["entries"]]

    def error(self, stored, name, found):
        """Largest absolute difference from what is stored, or from the samples of it; shapes must agree."""
        found = np.asarray(found)
        if name in stored.files:
            assert found.shape == stored[name].shape
            return float(np.abs(found.astype(np.float64) - stored[name]).max())
        assert found.shape == tuple(stored[f"{name}__shape"])
        picked = found.ravel()[stored[f"{name}__idx"]].astype(np.float64)
        return float(np.abs(picked - stored[f"{name}__val"]).max())


def golden_folder(part):
    root = os.environ.get("LIVEANCHOR_GOLDENS")
    return (Path(root) if root else Path(__file__).parents[1] / "goldens") / part


@pytest.fixture(scope="session")
def liveportrait_goldens():
    return Goldens(golden_folder("liveportrait"))
