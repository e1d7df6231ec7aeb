"""A seeded mutator: bytes in, slightly wrong bytes out. The same seed gives the same mutants. Pure."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence

WORDS = (
    b"", b"0", b"-1", b"99999999999999999999", b"1e309", b"NaN", b"null", b"::1", b"%s%n", b"../../x", b"\x00",
    b"\xff\xfe", b"\r\n\r\n", b"[" * 64, b"{" * 64, b"a=", b"m=video 9 UDP/TLS/RTP/SAVPF 0", "\N{SNOWMAN}".encode(),
)  # fmt: skip
"""Put into texts in place of others: what parsers stumble over."""
NUMBERS = (0, 1, 0x7F, 0x80, 0xFF)
MOST_CHANGES = 6


class Mutator:
    """Endless mutants of a corpus."""

    def __init__(self, corpus: Sequence[bytes], seed: int) -> None:
        """corpus: at least one sound example."""
        self._corpus = list(corpus)
        self._dice = random.Random(seed)

    def mutants(self, count: int) -> Iterator[bytes]:
        """So many, one to six changes each."""
        for _ in range(count):
            data = self._dice.choice(self._corpus)
            for _ in range(self._dice.randint(1, MOST_CHANGES)):
                data = self._changed(data)
            yield data

    def texts(self, count: int) -> Iterator[str]:
        """The same as text; what is no UTF-8 is replaced."""
        for mutant in self.mutants(count):
            yield mutant.decode("utf-8", "replace")

    def _changed(self, data: bytes) -> bytes:
        dice = self._dice
        at = dice.randrange(len(data) + 1)
        match dice.randrange(9):
            case 0:
                return data[:at]
            case 1:
                return data[:at] + data[min(len(data), at + dice.randint(1, 64)) :]
            case 2:
                return data[:at] + dice.choice(WORDS) + data[at:]
            case 3:
                return data[:at] + bytes([dice.choice(NUMBERS)]) + data[at + 1 :]
            case 4 if data and at < len(data):
                return data[:at] + bytes([data[at] ^ 1 << dice.randrange(8)]) + data[at + 1 :]
            case 5:
                other = dice.choice(self._corpus)
                return data[:at] + other[dice.randrange(len(other) + 1) :]
            case 6:
                return self._line_moved(data)
            case 7:
                return self._word_replaced(data)
            case _:
                return data[:at] + dice.randbytes(dice.randint(1, 16)) + data[at:]

    def _line_moved(self, data: bytes) -> bytes:
        lines = data.split(b"\n")
        line = lines.pop(self._dice.randrange(len(lines)))
        for _ in range(self._dice.choice((0, 1, 1, 2))):
            lines.insert(self._dice.randrange(len(lines) + 1), line)
        return b"\n".join(lines)

    def _word_replaced(self, data: bytes) -> bytes:
        words = data.split(b" ")
        words[self._dice.randrange(len(words))] = self._dice.choice(WORDS)
        return b" ".join(words)
