"""What docs/liveportrait.md says of tensors is what the code says."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("torch", reason="LivePortrait needs the [liveportrait] extra")

from engines import contracts

pytestmark = pytest.mark.unit
PAGE = (Path(__file__).parents[2] / "docs" / "liveportrait.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("engine", ["liveportrait", "joyvasa"])
def test_the_contract_tables_of_the_page_are_those_of_the_code(engine):
    section = PAGE.split(f"\n### {engine}\n", 1)[1].split("\n#", 1)[0]
    assert section.strip().splitlines() == list(contracts.table(contracts.contracts_of(engine)))
