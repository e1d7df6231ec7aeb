"""Where a packet's face is, for tiles that are cut around it."""

from __future__ import annotations

from avatars.packet import AvatarPacket


def face_place(packet: AvatarPacket) -> tuple[float, float]:
    """Middle of the head, shares of width and height."""
    width, height = packet.size_px
    x1, y1, x2, y2 = (float(edge) for edge in packet.coords[0])
    # The face box ends at the chin and begins at the brows: the head's middle lies higher.
    return (x1 + x2) / 2 / width, ((y1 + y2) / 2 - 0.2 * (y2 - y1)) / height
