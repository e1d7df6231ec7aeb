"""What the documents say of tensors is what the program checks."""

from __future__ import annotations

from pathlib import Path

import pytest

from engines import contracts
from engines.errors import EngineUnavailable

pytestmark = pytest.mark.unit
DOCS = Path(__file__).parents[2] / "docs"
PAGES = {
    "musetalk": "musetalk.md",
    "contract_net": "musetalk.md",
    "liveportrait": "liveportrait.md",
    "joyvasa": "liveportrait.md",
}


@pytest.mark.parametrize("engine", contracts.names())
def test_every_tensor_of_an_engine_stands_in_its_page(engine):
    try:
        stages = contracts.contracts_of(engine)
    except EngineUnavailable as missing:
        pytest.skip(str(missing))
    page = (DOCS / PAGES[engine]).read_text(encoding="utf-8").splitlines()
    assert [line for line in contracts.table(stages) if line not in page] == []
