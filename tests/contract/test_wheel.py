"""A built wheel, installed outside the checkout, serves: page, samples, models and portraits are inside it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import sysconfig
import urllib.request
import venv
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """A fresh environment with the wheel alone; what it needs comes by PYTHONPATH, which reads no .pth files."""
    folder = tmp_path_factory.mktemp("wheel")
    pip = [sys.executable, "-m", "pip", "-q", "--disable-pip-version-check"]
    subprocess.run([*pip, "wheel", "--no-deps", "-w", folder, ROOT], check=True, capture_output=True)
    (wheel,) = folder.glob("liveanchor-*.whl")
    venv.create(folder / "env", with_pip=False)
    python = folder / "env" / "bin" / "python"
    site = subprocess.run(
        [python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"],
        check=True,
        capture_output=True,
        text=True,
    ).stdout.strip()
    subprocess.run([*pip, "install", "--no-deps", "--target", site, wheel], check=True, capture_output=True)
    return python, folder


def get(url):
    with urllib.request.urlopen(url, timeout=10) as response:
        return response.read()


def test_installed_wheel_serves_page_samples_and_avatars(installed):
    python, folder = installed
    environment = {**os.environ, "PYTHONPATH": sysconfig.get_path("purelib")}
    command = [python, "-m", "streamer.cli", "serve", "--port", "0", "--print-url", "--avatars", folder / "avatars"]
    process = subprocess.Popen(command, cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    try:
        url = process.stdout.readline().decode().strip()
        assert url.startswith("http://127.0.0.1:"), process.stderr.read().decode()
        assert b"<html" in get(url).lower()
        abilities = json.loads(get(url + "api/capabilities"))
        assert len(get(url.rstrip("/") + abilities["samples"][0]["url"])) > 10_000
        avatars = json.loads(get(url + "api/avatars"))["avatars"]
        assert {"ruby", "blaze", "mateo"} <= {a["id"] for a in avatars if a["state"] == "ready"}
    finally:
        process.terminate()
        assert process.wait(20) == 0
        process.stdout.close()
        process.stderr.close()


def test_installed_wheel_imports_nothing_from_the_checkout(installed):
    python, folder = installed
    environment = {**os.environ, "PYTHONPATH": sysconfig.get_path("purelib")}
    code = "import streamer.app, engines.warp.engine, avatars.store as s; print(s.__file__)"
    found = subprocess.run(
        [python, "-c", code], check=True, capture_output=True, text=True, cwd=folder, env=environment
    )
    assert str(ROOT) not in found.stdout
