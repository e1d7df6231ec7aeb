"""Shared by all tests: every file lies in a folder that says what kind it is."""

from __future__ import annotations

import pytest
from hypothesis import settings

settings.register_profile("house", deadline=None, max_examples=60)
settings.load_profile("house")

KINDS = {"unit", "contract", "loopback", "browser", "gpu", "soak", "bench"}


def pytest_collection_modifyitems(items):
    """A test without its folder's mark would be skipped by nobody and found by nobody."""
    for item in items:
        kind = item.path.parent.name
        if kind in KINDS and item.get_closest_marker(kind) is None:
            item.add_marker(getattr(pytest.mark, kind))
