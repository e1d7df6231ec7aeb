"""What a soak does, as values that travel between its processes as JSON."""

from __future__ import annotations

from enum import StrEnum

import msgspec

from streamer.errors import ConfigError
from streamer.soak.impairment import Impairment


class Profile(StrEnum):
    """What a synthetic client is like."""

    TALKER = "talker"
    """Speaks into a mirror session without end; hears itself and times it."""
    LISTENER = "listener"
    """Has speech pushed to an agent session, utterance after utterance, and listens."""
    JOINER = "joiner"
    """Connects, speaks for a moment, leaves, comes again."""
    INTERRUPTER = "interrupter"
    """Lets an agent session speak and cuts it short, over and over; times the silence."""
    PROBE = "probe"
    """Says bursts into a mirror session and reads the lips of every decoded picture."""


class Failure(msgspec.Struct, frozen=True):
    """A call that did not go as it should."""

    stage: str
    """Where it stood: offering, connecting, live or leaving."""
    reason: str
    """In words, the same for the same cause."""
    refused: bool = False
    """The server said that it has no room (429, 503): no failure, and counted by itself."""


class Seat(msgspec.Struct, frozen=True):
    """One client."""

    number: int
    profile: Profile
    start_s: float
    """After the soak's beginning."""
    decodes: bool
    """Pictures are decoded, not only counted."""


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """Everything a worker process needs."""

    url: str
    """Of the server; ends with a slash."""
    token: str | None = None
    avatar: str
    canvas_px: int
    seats: tuple[Seat, ...]
    start_ns: int
    """Monotonic, which all processes of a machine share."""
    seconds: float
    cycles: int = 0
    """Calls each joiner makes; 0: as many as fit into the time."""
    stay_s: float = 1.0
    """How long a joiner speaks."""
    net: Impairment = Impairment()
    cores: tuple[int, ...] = ()


class ClientSample(msgspec.Struct, frozen=True, omit_defaults=True):
    """What one client noticed in about a second."""

    client: int
    profile: Profile
    t_s: float
    span_s: float
    live: bool = False
    frames: int = 0
    """Pictures whose packets came."""
    pictures: int = 0
    """Pictures decoded."""
    sounds: int = 0
    """Packets of sound that came."""
    gaps_ms: tuple[float, ...] = ()
    """Between pictures that followed each other."""
    sound_gap_ms: float = 0.0
    """The longest between two packets of sound."""
    av_offset_ms: float | None = None
    """How much later than its own sound a picture arrives, against the server's media clock."""
    to_ear_ms: tuple[float, ...] = ()
    to_lip_ms: tuple[float, ...] = ()
    silence_ms: tuple[float, ...] = ()
    """From an interrupt to the last sound."""
    calls: int = 0
    setup_ms: tuple[float, ...] = ()
    failures: tuple[Failure, ...] = ()
    residual_ms: float | None = None
    """A probe's mic-to-lip beyond what the server's stamps add up to."""


def share_out(profiles: dict[Profile, int], ramp_s: float, decoded: int) -> tuple[Seat, ...]:
    """Seats for so many clients of each profile, joining evenly over `ramp_s`.

    The first `decoded` of them decode, and every probe does.
    """
    kinds = [profile for profile in Profile for _ in range(profiles.get(profile, 0))]
    step_s = ramp_s / max(1, len(kinds) - 1)
    return tuple(
        Seat(number, profile, number * step_s, number < decoded or profile is Profile.PROBE)
        for number, profile in enumerate(kinds)
    )


def read_profiles(text: str, clients: int) -> dict[Profile, int]:
    """`talker=4,listener=2`, or for an empty text a mix of `clients`. Raises ConfigError."""
    if not text:
        return mixed(clients)
    found: dict[Profile, int] = {}
    for part in text.split(","):
        name, _, count = part.strip().partition("=")
        try:
            found[Profile(name)] = int(count or "1")
        except ValueError:
            names = ", ".join(Profile)
            raise ConfigError("--profiles", f"{part}: write for example talker=4,listener=2 ({names})") from None
    return found


def mixed(clients: int) -> dict[Profile, int]:
    """One probe, half talkers, the rest listeners and interrupters in turn."""
    if clients < 1:
        raise ConfigError("--clients", "at least one")
    probe, talkers = 1, clients // 2
    rest = clients - probe - talkers
    found = {Profile.PROBE: probe, Profile.TALKER: talkers}
    found |= {Profile.LISTENER: -(-rest // 2), Profile.INTERRUPTER: rest // 2}
    return {profile: count for profile, count in found.items() if count > 0}
