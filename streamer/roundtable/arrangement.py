"""Where the seats of a roundtable stand in the picture: layouts, and eased ways from one to the next. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

GAP_PX = 8
EASE_FRAMES = 14
"""A change of layout takes so many frames, 560 ms."""
STRIP_SHARE = 0.24
"""Width of the column beside a speaker in focus, share of the picture's."""


class Layout(StrEnum):
    """How seats are arranged."""

    GRID = "grid"
    FOCUS = "focus"
    SIDE_BY_SIDE = "side-by-side"
    SOLO = "solo"


@dataclass(frozen=True, slots=True)
class Place:
    """A seat's rectangle in the picture, pixels; edges even once it is drawn."""

    x: float
    y: float
    width: float
    height: float

    @property
    def rect(self) -> tuple[int, int, int, int]:
        """x1, y1, x2, y2, all even."""
        x1, y1 = 2 * round(self.x / 2), 2 * round(self.y / 2)
        return x1, y1, x1 + 2 * round(self.width / 2), y1 + 2 * round(self.height / 2)

    def towards(self, other: Place, share: float) -> Place:
        """This place with `share` (0..1) of the way to another."""
        ways = zip(
            (self.x, self.y, self.width, self.height), (other.x, other.y, other.width, other.height), strict=True
        )
        return Place(*(a + (b - a) * share for a, b in ways))

    @property
    def middle(self) -> Place:
        """The place shrunk to a point: where a seat comes from or goes to."""
        return Place(self.x + self.width / 2, self.y + self.height / 2, 0.0, 0.0)


@dataclass(frozen=True, slots=True)
class Arrangement:
    """A layout and who is in its focus; `featured` holds one name for focus and solo, two for side-by-side."""

    layout: Layout = Layout.GRID
    featured: tuple[str, ...] = ()


def arrange(arrangement: Arrangement, seats: Sequence[str], size_px: tuple[int, int]) -> dict[str, Place]:
    """The place of every seat that shows, in drawing order. `size_px`: (width, height) of the picture."""
    width, height = size_px
    whole = Place(GAP_PX, GAP_PX, width - 2 * GAP_PX, height - 2 * GAP_PX)
    featured = [name for name in dict.fromkeys(arrangement.featured) if name in seats]
    featured += [name for name in seats if name not in featured]
    match arrangement.layout:
        case Layout.SOLO:
            return {featured[0]: Place(0, 0, width, height)} if featured else {}
        case Layout.SIDE_BY_SIDE:
            pair = [name for name in seats if name in featured[:2]]
            return _grid(pair, whole)
        case Layout.FOCUS if len(seats) > 1:
            return _focus(featured[0], [name for name in seats if name != featured[0]], whole)
        case _:
            return _grid(seats, whole)


def _grid(seats: Sequence[str], whole: Place) -> dict[str, Place]:
    """As many columns as make the shorter side of a tile longest; a last row that is not full stands in the middle."""
    count = len(seats)
    if not count:
        return {}

    def shorter_side(columns: int) -> float:
        rows = -(-count // columns)
        return min(_share(whole.width, columns), _share(whole.height, rows))

    columns = max(range(1, count + 1), key=shorter_side)
    rows = -(-count // columns)
    width, height = _share(whole.width, columns), _share(whole.height, rows)
    places = {}
    for number, seat in enumerate(seats):
        row, column = divmod(number, columns)
        in_row = min(columns, count - row * columns)
        indent = (columns - in_row) * (width + GAP_PX) / 2
        x, y = whole.x + indent + column * (width + GAP_PX), whole.y + row * (height + GAP_PX)
        places[seat] = Place(x, y, width, height)
    return places


def _focus(speaker: str, others: Sequence[str], whole: Place) -> dict[str, Place]:
    strip = whole.width * STRIP_SHARE
    main = whole.width - strip - GAP_PX
    places = {speaker: Place(whole.x, whole.y, main, whole.height)}
    height = min(_share(whole.height, len(others)), strip * 3 / 4)
    top = whole.y + (whole.height - len(others) * height - (len(others) - 1) * GAP_PX) / 2
    for number, seat in enumerate(others):
        places[seat] = Place(whole.x + main + GAP_PX, top + number * (height + GAP_PX), strip, height)
    return places


def _share(length: float, count: int) -> float:
    return (length - (count - 1) * GAP_PX) / count


class Arranger:
    """Moves the seats from one arrangement to the next, frame by frame."""

    def __init__(self, seats: Sequence[str], size_px: tuple[int, int], arrangement: Arrangement) -> None:
        self._seats = tuple(seats)
        self._size_px = size_px
        self._goal = arrange(arrangement, self._seats, size_px)
        self._start = self._goal
        self._began: int | None = None
        self.arrangement = arrangement

    def change(self, arrangement: Arrangement, index: int) -> None:
        """Set out for another arrangement at frame `index`, from wherever the seats are now."""
        if arrangement == self.arrangement:
            return
        self._start = self._now(index)
        self._goal = arrange(arrangement, self._seats, self._size_px)
        self._began = index
        self.arrangement = arrangement

    def places(self, index: int) -> dict[str, Place]:
        """Every seat that shows at frame `index`, the largest first, so that the small ones lie on top."""
        return dict(sorted(self._now(index).items(), key=lambda item: -item[1].width * item[1].height))

    def _now(self, index: int) -> dict[str, Place]:
        if self._began is None or index >= self._began + EASE_FRAMES:
            return self._goal
        t = max(0.0, (index - self._began) / EASE_FRAMES)
        share = t * t * (3.0 - 2.0 * t)
        found = {}
        for seat in dict.fromkeys((*self._start, *self._goal)):
            start, goal = self._start.get(seat), self._goal.get(seat)
            here = start or (goal.middle if goal else None)
            there = goal or (start.middle if start else None)
            if here is not None and there is not None:
                found[seat] = here.towards(there, share)
        return found


def map_features(
    layout: Layout, active: str | None, before: str | None, pinned: Mapping[Layout, tuple[str, ...]]
) -> Arrangement:
    """The arrangement for who speaks now and who spoke before, unless somebody is pinned to the layout."""
    if pinned.get(layout):
        return Arrangement(layout, pinned[layout])
    names = tuple(name for name in (active, before) if name is not None)
    if layout is Layout.GRID:
        return Arrangement(layout)
    return Arrangement(layout, names if layout is Layout.SIDE_BY_SIDE else names[:1])
