"""The table: seats' pictures and sounds of a frame become the room's picture, its sound, and each one's mix. Pure.

The same for a live room and for a show that is rendered: neither clock nor network is known here.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from streamer.media import S16, Picture, PictureKind, Stamps
from streamer.roundtable.arrangement import Arranger, Layout, map_features
from streamer.roundtable.board import Board, Look, Sitter
from streamer.roundtable.floor import Floor
from streamer.roundtable.mix import Mixer
from streamer.roundtable.speaker import ActiveSpeaker


@dataclass(frozen=True, slots=True, eq=False)
class Mixed:
    """One frame of a room."""

    picture: Picture
    """The whole, with the whole sound."""
    without: dict[str, S16]
    """(1920,) s16 of all voices but the seat's own, for those asked for."""


class Table:
    """Call `lay` once a frame with ascending indices; everything else may be called in between."""

    def __init__(self, look: Look, sitters: dict[str, Sitter], layout: Layout, floor: Floor) -> None:
        self.floor = floor
        self.mixer = Mixer(dict.fromkeys(sitters, 0.0))
        self.speaker = ActiveSpeaker()
        self.layout = layout
        self._pinned: dict[Layout, tuple[str, ...]] = {}
        self._board = Board(look, sitters)
        self._arranger = Arranger(tuple(sitters), look.size_px, map_features(layout, None, None, {}))
        self._shown: dict[str, Picture] = {}

    @property
    def tiles_drawn(self) -> int:
        """Since the start."""
        return self._board.tiles_drawn

    @property
    def featured(self) -> tuple[str, ...]:
        """Who is in the focus of the layout."""
        return self._arranger.arrangement.featured

    def set_layout(self, layout: Layout, featured: tuple[str, ...] = ()) -> None:
        """Another layout from the next frame on. `featured`: seats that stay in its focus; empty: who speaks."""
        self.layout = layout
        self._pinned[layout] = featured

    def lay(self, index: int, pictures: Mapping[str, Picture], without: Collection[str] = ()) -> Mixed:
        """The frame `index` of each seat that has one; who has none shows its last and is silent."""
        self._shown |= pictures
        audible = self.floor.audible
        sound, mixes = self.mixer.mix({s: p.pcm48 for s, p in pictures.items()}, audible, without)
        active = self.speaker.hear({s: level for s, level in self.mixer.levels.items() if s in audible})
        self._arranger.change(map_features(self.layout, active, self.speaker.before, self._pinned), index)
        planes = self._board.draw(
            self._arranger.places(index),
            {seat: picture.planes for seat, picture in self._shown.items()},
            active if self.speaker.speaking else None,
            [seat for seat, picture in self._shown.items() if picture.kind is PictureKind.IDLE],
        )
        voiced = any(picture.kind is not PictureKind.IDLE for picture in pictures.values())
        kind = PictureKind.VOICED if voiced else PictureKind.IDLE
        return Mixed(Picture(index, planes, sound, kind, 0, Stamps()), mixes)
