"""Settings: one frozen tree, read from a TOML file and overridden by command-line flags. Knows no component."""

from __future__ import annotations

import ipaddress
import tomllib
from pathlib import Path
from typing import Any

import msgspec

from streamer.errors import ConfigError


class IceServerConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A STUN or TURN server for the server and its visitors."""

    urls: tuple[str, ...]
    username: str | None = None
    credential: str | None = None


class IceConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    servers: tuple[IceServerConfig, ...] = ()
    announce: tuple[str, ...] = ()
    """Public addresses to offer in place of the machine's own."""
    udp_ports: tuple[int, int] | None = None


class VadConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    aggressiveness: int = 2
    preroll_ms: int = 60
    minimum_speech_ms: int = 40
    hangover_ms: int = 200


class BargeInConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A visitor who speaks while the avatar speaks (source agent) makes it fall silent."""

    enabled: bool = True
    minimum_speech_ms: int = 200


class TtsConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Text to speech. flite and espeak-ng are used where they are installed."""

    piper_voices: str | None = None
    """A folder of Piper voices (NAME.onnx with NAME.onnx.json); where `piper` is installed the first is the voice."""


class BroadcastConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """WHIP and WHEP."""

    avatar: str = "ruby"
    """Who speaks on a feed that is published without ?avatar=ID."""
    push_to: tuple[str, ...] = ()
    """What the addresses that feeds may be pushed to begin with, such as "rtmp://live.example/app/"; none: nowhere."""
    require_if_match: bool = False
    """Refuse trickle ICE without If-Match (428), as RFC 9725 asks; several clients in use do not send it."""


class C2paConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Manifests in recordings and films (MP4); needs the extra `c2pa`. Both or none."""

    certificate: str | None = None
    """A PEM file: the signer's certificate, then those above it, the root left out."""
    key: str | None = None
    """A PEM file: its private key."""


class TracesConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """OpenTelemetry; needs the extra `traces`."""

    url: str | None = None
    """Where spans are posted (OTLP over HTTP), such as http://127.0.0.1:4318/v1/traces; None: nowhere."""
    share: float = 0.01
    """Of the voiced windows that are traced."""


class LimitsConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    sessions: int = 8
    viewers: int = 200
    """Of all feeds together."""
    rooms: int = 4
    recordings: int = 4
    """At once, feeds that are pushed out among them."""
    connect_timeout_s: float = 14.0
    """Before 15 s all that a peer who never comes has cost is free again."""
    offers_per_s: float = 5.0
    """Of one address, after its first `offers_burst`."""
    offers_burst: int = 20
    drain_s: float = 20.0
    """How long sessions may go on after SIGTERM: what is being said is finished."""
    offer_bytes: int = 64 * 1024
    upload_bytes: int = 200 * 1024 * 1024
    """One portrait or clip."""
    speech_bytes: int = 20 * 1024 * 1024
    queued_speech_s: float = 600.0


class Config(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Everything a person may set."""

    host: str = "127.0.0.1"
    port: int = 8007
    token: str | None = None
    engine: str = "warp"
    avatars: str = "storage/cache/avatars"
    models: str = "storage/models"
    """Folder of weights, for engines that have some."""
    engine_options: dict[str, Any] = {}
    """What the engine itself takes: backend, precision and the like; see its page."""
    recordings: str = "storage/recordings"
    canvas_px: int = 512
    badge: str | None = None
    """Words in the upper right corner of every picture the server makes, such as "AI"; None: where it is asked for."""
    sway: bool = True
    """Portraits sway and breathe (512 px at most); False: they stand still."""
    playout_slack_ms: float = 25.0
    """Time kept between the last sound a frame needs and its release: jitter of the network and of rendering."""
    allowed_origins: tuple[str, ...] = ()
    open: tuple[str, ...] = ()
    """Files of rooms and shows that are opened at start; a show is played once."""
    ice: IceConfig = IceConfig()
    vad: VadConfig = VadConfig()
    barge_in: BargeInConfig = BargeInConfig()
    tts: TtsConfig = TtsConfig()
    broadcast: BroadcastConfig = BroadcastConfig()
    limits: LimitsConfig = LimitsConfig()
    traces: TracesConfig = TracesConfig()
    c2pa: C2paConfig = C2paConfig()

    @property
    def avatars_dir(self) -> Path:
        return Path(self.avatars)

    @property
    def models_dir(self) -> Path:
        return Path(self.models)

    @property
    def piper_folder(self) -> Path | None:
        return None if self.tts.piper_voices is None else Path(self.tts.piper_voices).absolute()


LOOPBACK_NAMES = frozenset({"127.0.0.1", "::1", "localhost"})
MOST_BADGE_CHARACTERS = 20
CANVAS_SIZES_PX = (256, 384, 512, 640, 768, 1024)


def load(path: Path | None, overrides: dict[str, Any]) -> Config:
    """Read the file, lay the flags over it, check the whole. Raises ConfigError naming the setting."""
    tree: dict[str, Any] = {}
    if path is not None:
        try:
            tree = tomllib.loads(path.read_text(encoding="utf-8"))
        except OSError as error:
            raise ConfigError(str(path), f"cannot be read ({error.strerror})") from error
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise ConfigError(str(path), f"is not TOML: {error}") from error
    for key, value in overrides.items():
        if value is not None:
            _lay(tree, key.split("."), value)
    try:
        config = msgspec.convert(tree, Config, strict=False)
    except msgspec.ValidationError as error:
        raise ConfigError(str(path) if path else "command line", str(error)) from error
    return check(config)


def check(config: Config) -> Config:
    """What a type cannot say."""
    if config.host not in LOOPBACK_NAMES and not config.token:
        raise ConfigError("host", f"{config.host} can be reached from outside; set --token too")
    if config.token is not None and len(config.token) < 16:
        raise ConfigError("token", "must have at least 16 characters")
    if not 0 <= config.port <= 65_535:
        raise ConfigError("port", f"{config.port} is no port")
    if config.canvas_px not in CANVAS_SIZES_PX:
        raise ConfigError("canvas_px", f"must be one of {', '.join(map(str, CANVAS_SIZES_PX))}")
    if not 0 <= config.vad.aggressiveness <= 3:
        raise ConfigError("vad.aggressiveness", "must be 0 to 3")
    if not 100 <= config.barge_in.minimum_speech_ms <= 400:
        raise ConfigError("barge_in.minimum_speech_ms", "must be 100 to 400")
    if config.tts.piper_voices is not None and not Path(config.tts.piper_voices).is_dir():
        raise ConfigError("tts.piper_voices", f"{config.tts.piper_voices} is no folder")
    _check_marks(config)
    _check_limits(config.limits)
    _check_traces(config.traces)
    if config.ice.udp_ports is not None:
        low, high = config.ice.udp_ports
        if not 1 <= low <= high <= 65_535:
            raise ConfigError("ice.udp_ports", f"{low}-{high} is no port range; write for example 40000-40100")
    for address in config.ice.announce:
        try:
            ipaddress.ip_address(address)
        except ValueError as error:
            raise ConfigError("ice.announce", f"{address} is no IP address") from error
    return config


def _check_marks(config: Config) -> None:
    if config.badge is not None:
        check_badge(config.badge)
    if (config.c2pa.certificate is None) != (config.c2pa.key is None):
        raise ConfigError("c2pa", "takes a certificate and a key")


def check_badge(words: str) -> str:
    """The words of a badge themselves. Raises ConfigError."""
    if not 1 <= len(words) <= MOST_BADGE_CHARACTERS or not words.isprintable() or words.isspace():
        raise ConfigError("badge", f"may have 1 to {MOST_BADGE_CHARACTERS} characters, such as AI")
    return words


def _check_traces(traces: TracesConfig) -> None:
    if not 0 <= traces.share <= 1:
        raise ConfigError("traces.share", "must be 0 to 1")
    if traces.url is not None and not traces.url.startswith(("http://", "https://")):
        raise ConfigError("traces.url", "must begin with http:// or https://")


def _check_limits(limits: LimitsConfig) -> None:
    if not (0.01 <= limits.offers_per_s <= 10_000 and limits.offers_burst >= 1):
        raise ConfigError("limits.offers_per_s", "must be 0.01 to 10000, and offers_burst at least 1")
    if not 0 <= limits.drain_s <= 3600:
        raise ConfigError("limits.drain_s", "must be 0 to 3600")


def _lay(tree: dict[str, Any], path: list[str], value: Any) -> None:
    for name in path[:-1]:
        tree = tree.setdefault(name, {})
    tree[path[-1]] = value
