"""What a check says: one line, and where something is wrong, what to do about it."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from enum import StrEnum


class Verdict(StrEnum):
    GOOD = "good"
    WARN = "warn"
    """It works, but not for everybody or not as well as it could."""
    BAD = "bad"


@dataclass(frozen=True, slots=True)
class Finding:
    """One line."""

    check: str
    verdict: Verdict
    found: str
    remedy: str = ""
    """What to do; empty where nothing is to be done."""

    def plain(self) -> dict[str, str]:
        """JSON-ready."""
        return {name: str(value) for name, value in asdict(self).items()}


def good(check: str, found: str) -> Finding:
    return Finding(check, Verdict.GOOD, found)


def warn(check: str, found: str, remedy: str) -> Finding:
    return Finding(check, Verdict.WARN, found, remedy)


def bad(check: str, found: str, remedy: str) -> Finding:
    return Finding(check, Verdict.BAD, found, remedy)
