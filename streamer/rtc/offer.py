"""The border for offers: bounds before any parser sees the text, and what an offer asks for. Pure text, no sockets."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass

from streamer.errors import SignalingError

MAX_OFFER_BYTES = 64 * 1024
MAX_LINE_CHARS = 1024
MAX_LINES = 1500
MAX_MEDIA = 4
MAX_CANDIDATES = 64
MAX_FORMATS = 128

_SENDS = frozenset({"sendrecv", "sendonly"})
_RECEIVES = frozenset({"sendrecv", "recvonly"})


@dataclass(frozen=True, slots=True)
class MediaLine:
    """One m-line of an offer, as the peer sees it."""

    kind: str
    mid: str
    direction: str
    codecs: tuple[str, ...]
    """Codec names in the offer's order, upper case, each once."""

    @property
    def wants(self) -> bool:
        """The peer wants to receive on this line."""
        return self.direction in _RECEIVES

    @property
    def gives(self) -> bool:
        """The peer wants to send on this line."""
        return self.direction in _SENDS


@dataclass(frozen=True, slots=True)
class Offer:
    """An offer inside its bounds: the text to parse, candidates filtered, and what it asks for."""

    sdp: str
    lines: tuple[MediaLine, ...]
    ufrag: str
    candidates: int

    def first(self, kind: str) -> MediaLine | None:
        """The m-line that carries our audio, video or data."""
        return next((line for line in self.lines if line.kind == kind), None)


def read_offer(text: str, *, remote_is_local: bool) -> Offer:
    """Check an offer against the bounds and strip what must not reach ICE. Raises SignalingError."""
    session: list[str] = []
    sections: list[list[str]] = []
    candidates = 0
    for line in _bounded_lines(text):
        if line.startswith("m="):
            if len(sections) == MAX_MEDIA:
                raise SignalingError(f"the offer has more than {MAX_MEDIA} m-lines")
            sections.append([])
        if line.startswith("a=candidate:"):
            candidates += 1
            if candidates > MAX_CANDIDATES:
                raise SignalingError(f"the offer has more than {MAX_CANDIDATES} candidates")
            if not usable_candidate(line[len("a=candidate:") :], remote_is_local=remote_is_local):
                continue
        if line == "a=end-of-candidates":
            continue  # a peer that is not in the list may still knock (peer-reflexive), so ICE must go on waiting
        (sections[-1] if sections else session).append(line)
    lines = tuple(_media_line(section) for section in sections)
    _check_whole(session, sections, lines)
    kept = [line for part in (session, *sections) for line in part]
    ufrag = next(line[len("a=ice-ufrag:") :] for line in kept if line.startswith("a=ice-ufrag:"))
    return Offer("\r\n".join(kept) + "\r\n", lines, ufrag, candidates)


def _check_whole(session: list[str], sections: list[list[str]], lines: tuple[MediaLine, ...]) -> None:
    """What must be there before a connection is worth making; aiortc stumbles late where it is not."""
    if not any(line.kind in ("audio", "video") for line in lines):
        raise SignalingError("the offer has neither audio nor video")
    mids = [line.mid for line in lines]
    if "" in mids or len(set(mids)) < len(mids):
        raise SignalingError("the offer's m-lines need a mid each")
    for section, media in zip(sections, lines, strict=True):
        own = session + section
        for name in ("ice-ufrag", "ice-pwd", "fingerprint", "setup"):
            if not any(line.startswith(f"a={name}:") and len(line) > len(name) + 3 for line in own):
                raise SignalingError(f"the offer's m-line {media.mid} has no {name}")
        if media.kind in ("audio", "video") and "a=rtcp-mux" not in section:
            raise SignalingError("the offer must multiplex RTCP (rtcp-mux)")
    for line in session:
        if line.startswith("a=group:BUNDLE") and not set(line.split()[1:]) <= set(mids):
            raise SignalingError("the offer bundles m-lines that it does not have")


def usable_candidate(value: str, *, remote_is_local: bool) -> bool:
    """Whether ICE should be told of a candidate.

    Names (`.local`) are dropped, never resolved: such a peer is learned from its own checks. TCP and RTCP components
    are of no use here. Loopback and link-local addresses of a remote peer would make this machine
    knock on its own doors.
    """
    words = value.split()
    if len(words) < 8 or words[2].lower() != "udp" or words[1] not in ("0", "1"):
        return False
    try:
        address = ipaddress.ip_address(words[4].strip("[]"))
    except ValueError:
        return False
    if address.is_multicast or address.is_unspecified:
        return False
    return remote_is_local or not (address.is_loopback or address.is_link_local)


def _bounded_lines(text: str) -> list[str]:
    if len(text) > MAX_OFFER_BYTES or len(text.encode("utf-8", "surrogatepass")) > MAX_OFFER_BYTES:
        raise SignalingError(f"the offer is larger than {MAX_OFFER_BYTES // 1024} KB", 413)
    if not text.startswith("v="):
        raise SignalingError("the body is not an SDP offer")
    lines = [line for line in text.replace("\r\n", "\n").split("\n") if line]
    if len(lines) > MAX_LINES:
        raise SignalingError(f"the offer has more than {MAX_LINES} lines")
    for line in lines:
        if len(line) > MAX_LINE_CHARS:
            raise SignalingError(f"the offer has a line of more than {MAX_LINE_CHARS} characters")
        if not line.isprintable():
            raise SignalingError("the offer has unprintable characters")
    return lines


def _media_line(section: list[str]) -> MediaLine:
    words = section[0][2:].split()
    if len(words) < 4:
        raise SignalingError("the offer has a broken m-line")
    if len(words) - 3 > MAX_FORMATS:
        raise SignalingError(f"the offer has an m-line of more than {MAX_FORMATS} formats")
    mid, direction = "", "sendrecv"
    names: dict[str, str] = {}
    for line in section[1:]:
        if line.startswith("a=mid:"):
            mid = line[len("a=mid:") :]
        elif line[2:] in ("sendrecv", "sendonly", "recvonly", "inactive"):
            direction = line[2:]
        elif line.startswith("a=rtpmap:"):
            number, _, description = line[len("a=rtpmap:") :].partition(" ")
            names[number] = description.split("/")[0].upper()
    ordered = dict.fromkeys(names[number] for number in words[3:] if number in names)
    return MediaLine(words[0], mid, direction, tuple(ordered))
