"""Shared by all tests: a file lies in a folder that says what kind it is; one real server for those that talk."""

from __future__ import annotations

import os

import pytest
from hypothesis import settings

from streamer.bench.served import serve_command, served

# The same cases every time, so that a test fails for a change and not for a draw; `search` looks for new ones.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # as the command line does, before numpy comes in
settings.register_profile("house", deadline=None, max_examples=60, derandomize=True)
settings.register_profile("search", deadline=None, max_examples=1000)
settings.load_profile(os.environ.get("LIVEANCHOR_HYPOTHESIS", "house"))

KINDS = {"unit", "contract", "loopback", "browser", "gpu", "soak", "bench"}


def pytest_collection_modifyitems(items):
    """A test without its folder's mark would be skipped by nobody and found by nobody."""
    for item in items:
        kind = item.path.parent.name
        if kind in KINDS and item.get_closest_marker(kind) is None:
            item.add_marker(getattr(pytest.mark, kind))


@pytest.fixture(scope="session")
def avatars_dir(tmp_path_factory):
    """A store of avatars for servers of this run: the bundled portraits are prepared once."""
    return tmp_path_factory.mktemp("avatars")


@pytest.fixture(scope="session")
def server(avatars_dir):
    """`liveanchor serve` in a process of its own, on a free port, for the whole run; `server.url` ends with a slash."""
    with served(serve_command(avatars_dir)) as running:
        yield running
