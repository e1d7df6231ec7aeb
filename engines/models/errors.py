"""Errors of fetching models."""

from __future__ import annotations

from engines.errors import EngineError


class ModelUnreachable(EngineError):
    """A file cannot be had from there; what has come so far is kept and gone on with."""

    def __init__(self, file: str, reason: str) -> None:
        super().__init__(file, reason)
        self.file = file
        self.reason = reason

    def __str__(self) -> str:
        return (
            f"{self.file} could not be had: {self.reason}. Run the command again to go on, or try --mirror or --from."
        )


class ModelRefused(EngineError):
    """What came is not the file that was asked for; it was not kept."""

    def __init__(self, file: str, expected: str, found: str) -> None:
        super().__init__(file, expected, found)
        self.file = file
        self.expected = expected
        self.found = found

    def __str__(self) -> str:
        return f"{self.file} was refused: expected {self.expected}, found {self.found}"


class ModelSetUnknown(EngineError):
    """There is no set of models of this name, or its description is broken."""

    def __init__(self, name: str, reason: str) -> None:
        super().__init__(name, reason)
        self.name = name
        self.reason = reason

    def __str__(self) -> str:
        return f"models {self.name!r}: {self.reason}"
