"""The table of faults names tests that exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

pytestmark = pytest.mark.unit

ROOT = Path(__file__).parents[2]
TABLE = (ROOT / "docs" / "reliability.md").read_text(encoding="utf-8")
CITED = re.compile(r"`([a-z0-9_]{12,})…?`")


def test_every_test_the_table_names_is_there():
    tests = "\n".join(path.read_text(encoding="utf-8") for path in (ROOT / "tests").rglob("test_*.py"))
    cited = CITED.findall(TABLE)
    assert len(cited) > 20
    assert [name for name in cited if f"def test_{name}" not in tests] == []


def test_every_file_the_table_names_is_there():
    files = {path.stem for path in (ROOT / "tests").rglob("test_*.py")}
    assert {name for name in re.findall(r"\btest_[a-z_]+\b", TABLE)} <= files
