"""Errors of engines: not there, broken contract, bad output."""

from __future__ import annotations


class EngineError(Exception):
    """Root of everything that can be wrong with an engine."""


class EngineUnavailable(EngineError):
    """The engine cannot run here; `remedy` says what to install or change."""

    def __init__(self, engine: str, reason: str, remedy: str) -> None:
        super().__init__(engine, reason, remedy)
        self.engine = engine
        self.reason = reason
        self.remedy = remedy

    def __str__(self) -> str:
        return f"engine {self.engine!r} cannot run here: {self.reason}. {self.remedy}"


class EngineContract(EngineError):
    """A tensor does not fit its contract."""

    def __init__(self, tensor: str, expected: str, found: str) -> None:
        super().__init__(tensor, expected, found)
        self.tensor = tensor
        self.expected = expected
        self.found = found

    def __str__(self) -> str:
        return f"engine contract broken: {self.tensor}: expected {self.expected}, found {self.found}"


class EngineOutput(EngineError):
    """One job failed or gave an unusable picture; the engine itself goes on."""

    def __init__(self, engine: str, reason: str) -> None:
        super().__init__(engine, reason)
        self.engine = engine
        self.reason = reason

    def __str__(self) -> str:
        return f"engine {self.engine!r} gave no usable frame: {self.reason}"
