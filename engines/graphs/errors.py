"""Errors of the graph tools."""

from __future__ import annotations

from engines.errors import EngineError


class GraphUnreadable(EngineError):
    """The file is no ONNX graph, or not a valid one."""

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(path, reason)
        self.path = path
        self.reason = reason

    def __str__(self) -> str:
        return f"{self.path} cannot be read as an ONNX graph: {self.reason}"


class GraphRefused(EngineError):
    """A node cannot be rewritten without changing what the graph computes, or nobody can show that it would not."""

    def __init__(self, node: str, reason: str) -> None:
        super().__init__(node, reason)
        self.node = node
        self.reason = reason

    def __str__(self) -> str:
        return f"{self.node}: refused: {self.reason}"


class GraphsDiffer(EngineError):
    """Two graphs that should compute the same do not take or give the same tensors."""

    def __init__(self, tensor: str, reason: str) -> None:
        super().__init__(tensor, reason)
        self.tensor = tensor
        self.reason = reason

    def __str__(self) -> str:
        return f"{self.tensor}: {self.reason}"
