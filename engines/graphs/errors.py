"""Errors of the graph tools."""

from __future__ import annotations

from engines.errors import EngineError


def one_line(reason: str, most: int = 240) -> str:
    """What a library says in many lines, in one."""
    words = " ".join(reason.split())
    return words if len(words) <= most else words[: most - 1] + "…"


class GraphUnreadable(EngineError):
    """The file is no ONNX graph, or not a valid one."""

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(path, reason)
        self.path = path
        self.reason = reason

    def __str__(self) -> str:
        return f"{self.path} cannot be read as an ONNX graph: {one_line(self.reason)}"


class GraphRefused(EngineError):
    """A node cannot be rewritten without changing what the graph computes, or nobody can show that it would not."""

    def __init__(self, node: str, reason: str) -> None:
        super().__init__(node, reason)
        self.node = node
        self.reason = reason

    def __str__(self) -> str:
        return f"{self.node}: refused: {one_line(self.reason)}"


class GraphsDiffer(EngineError):
    """Two graphs that should compute the same do not take or give the same tensors."""

    def __init__(self, tensor: str, reason: str) -> None:
        super().__init__(tensor, reason)
        self.tensor = tensor
        self.reason = reason

    def __str__(self) -> str:
        return f"{self.tensor}: {one_line(self.reason)}"


class GraphUnwritable(EngineError):
    """A graph cannot be saved there."""

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(path, reason)
        self.path = path
        self.reason = reason

    def __str__(self) -> str:
        return f"{self.path} cannot be written: {one_line(self.reason)}"
