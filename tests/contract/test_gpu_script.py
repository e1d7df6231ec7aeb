"""The script for people with a GPU runs here too, on a CPU with small networks: every line, and what it prints."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch", reason="MuseTalk needs the [musetalk] extra")
pytest.importorskip("onnxruntime", reason="graphs need the [musetalk] extra")

pytestmark = [pytest.mark.contract, pytest.mark.long, pytest.mark.timeout(600)]
ROOT = Path(__file__).parents[2]
ROWS = (
    r"a rehearsal on a CPU", r"unet against the CPU in fp32: max ", r"decoder against the CPU in fp32: max ",
    r"CUDA graph, batch of \d: replayed twice the same bytes", r"batch  UNet alone  of the 350 claimed",
    r"(?m)^ +2 +\d+ +\d+ % +\d+ \.?$", r"sound features padded to 30 s", r"sound features of 1\.7 s",
    r"blending at 512 px", r"end to end, sound to blended I420 picture, batches of 2: \d+ frames a second",
    r"tensorrt-rtx: not run: ", r"tensorrt: not run: ",
)  # fmt: skip


def test_every_line_of_the_gpu_script_runs_and_prints_its_row():
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-m",
        "gpu",
        "-s",
        "-p",
        "no:cacheprovider",
        "tests/gpu/test_musetalk_cuda.py",
    ]
    environment = os.environ | {"LIVEANCHOR_REHEARSE": "1", "CUDA_VISIBLE_DEVICES": ""}
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT, env=environment)
    print(done.stdout[-4000:])
    assert done.returncode == 0
    assert [row for row in ROWS if not re.search(row, done.stdout)] == []
