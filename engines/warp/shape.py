"""What a mouth does in one frame, in six numbers: the word the audio network says and the renderer hears."""

from __future__ import annotations

from typing import NamedTuple


class MouthShape(NamedTuple):
    """Each 0..1; all zero is a closed mouth at rest."""

    open: float = 0.0
    """Jaw drop."""
    wide: float = 0.0
    """Corners drawn apart, as in /i/."""
    round: float = 0.0
    """Corners drawn together and lips pushed out, as in /u/."""
    fv: float = 0.0
    """Lower lip against the upper teeth."""
    press: float = 0.0
    """Lips pressed together, as in /m/; it closes whatever the jaw does."""
    tongue: float = 0.0
    """Tip of the tongue raised, as in /l/ and /th/."""
