"""What a peer is told when it is made: ICE, picture size, codecs. Values only."""

from __future__ import annotations

from dataclasses import dataclass, field

VIDEO_CODECS = ("VP8", "H264")


@dataclass(frozen=True, slots=True)
class IceServer:
    """A STUN or TURN server: `stun:host:port`, `turn:host:port?transport=udp` or `turns:host:port?transport=tcp`."""

    url: str
    username: str | None = None
    credential: str | None = None


@dataclass(frozen=True, slots=True)
class IceSettings:
    """How this machine is reached. Empty means: host addresses only, any port, no server asked."""

    ice_servers: tuple[IceServer, ...] = ()
    """At most one STUN and one TURN server are used."""
    announce: tuple[str, ...] = ()
    """Addresses offered instead of this machine's own, for 1:1 NAT and containers."""
    udp_ports: tuple[int, int] | None = None
    """First and last UDP port to bind; None: any."""
    gather_cap_ms: int = 250
    """How long an answer waits for STUN and TURN before it goes out without them."""


@dataclass(frozen=True, slots=True)
class PeerSettings:
    """Everything about one peer that is known before its offer."""

    size_px: tuple[int, int]
    """(width, height) of the pictures shown, both even."""
    remote_is_local: bool = False
    """The peer's signalling came from this machine: offer loopback addresses too."""
    ice: IceSettings = field(default_factory=IceSettings)
    gives: bool = True
    """Pictures and sound go out to the peer."""
    takes: bool = True
    """The peer's sound is taken."""
    prefer: tuple[str, ...] = ()
    """Video codecs in the order wanted ("VP8", "H264"); empty: the offer's own order."""

    def __post_init__(self) -> None:
        width_px, height_px = self.size_px
        if width_px % 2 or height_px % 2 or not (16 <= width_px <= 4096 and 16 <= height_px <= 4096):
            raise ValueError(f"size_px must be two even numbers from 16 to 4096, not {self.size_px}")
        unknown = set(self.prefer) - set(VIDEO_CODECS)
        if unknown:
            raise ValueError(f"prefer knows {VIDEO_CODECS}, not {sorted(unknown)}")


@dataclass(frozen=True, slots=True)
class InboundStats:
    """What happened to the peer's sound on its way in; counts since the start."""

    packets: int = 0
    lost: int = 0
    late: int = 0
    duplicated: int = 0
    resets: int = 0
    concealed_samples: int = 0
    jitter_ms: float = 0.0


@dataclass(frozen=True, slots=True)
class PeerStats:
    """A reading of one peer; counts since the start."""

    video_codec: str = ""
    connected: bool = False
    ended: str | None = None
    """Why the peer is gone, in one word; None while it is not."""
    packets_sent: int = 0
    bytes_sent: int = 0
    video_bytes: int = 0
    audio_bytes: int = 0
    target_bitrate_bps: int = 0
    rtt_ms: float | None = None
    outbound_loss: float = 0.0
    """Share of our video packets the peer reported lost in its last report, 0..1."""
    pictures_sent: int = 0
    pictures_dropped: int = 0
    """Pictures whose video was not sent: too late, or the encoder was still busy."""
    keyframes: int = 0
    keyframe_requests: int = 0
    encoder_rebuilds: int = 0
    events_dropped: int = 0
    inbound: InboundStats = field(default_factory=InboundStats)
