"""`liveanchor render` for the engines of the live line: an avatar and a sound to an MP4, faster than real time."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import typer
from rich.console import Console
from rich.progress import Progress

if TYPE_CHECKING:
    from avatars.packet import AvatarPacket
    from streamer.graphics.badge import Badge
    from streamer.provenance import FilmSigner

SHOW_SECONDS = 5


@dataclass(frozen=True, slots=True, eq=False)
class Finish:
    """What a film gets beside a speaking face."""

    badge: Badge | None = None
    signer: FilmSigner | None = None


def show_off(packet: AvatarPacket, stem: Path) -> tuple[Path, Path]:
    """Write a sheet of mouths (STEM-mouths.png) and a talking clip (STEM.mp4) of an avatar; the two files.

    Raises EngineContract where nothing can speak with this packet, ConfigError where a file cannot be written.
    """
    from PIL import Image

    from engines.warp import visemes
    from engines.warp.engine import WarpEngine
    from streamer import talk as talking
    from streamer.app import web_folder
    from streamer.media import SOUND_HZ
    from streamer.speech import decode_speech

    engine = WarpEngine()
    sheet_path, film_path = stem.with_name(f"{stem.name}-mouths.png"), stem.with_name(f"{stem.name}.mp4")
    Image.fromarray(visemes.sheet(engine.attach(packet))).save(sheet_path)
    sound = (web_folder() / "samples" / "evening-news.ogg").read_bytes()
    speaker = talking.Speaker.of(engine, packet, max(packet.size_px))
    talking.film(speaker, decode_speech(sound, "audio/ogg")[: SHOW_SECONDS * SOUND_HZ], film_path, lambda *_: None)
    return sheet_path, film_path


def talk(avatar: str, audio: Path, out: Path, engine_name: str, finish: Finish, *, as_json: bool) -> None:
    """Render and report. `avatar` is an id of the default store or a picture, which is then precompiled in passing.

    Raises AvatarError, EngineError, SpeechRejected, ConfigError, NotSigned.
    """
    from avatars.faces import FaceMesh
    from avatars.picture import load_picture
    from avatars.precompile import precompile_portrait
    from avatars.store import AvatarStore
    from engines import catalog
    from streamer import talk as talking
    from streamer.config import Config
    from streamer.errors import ConfigError
    from streamer.speech import SpeechLimits, decode_speech

    config = Config()

    def packet_of() -> AvatarPacket:
        picture = Path(avatar)
        if picture.is_file():
            return precompile_portrait(load_picture(picture), "portrait", FaceMesh(), source=picture.name)
        store = AvatarStore(config.avatars_dir, sways=config.sway)
        store.make_bundled(avatar)
        return store.open(avatar)

    try:
        sound = audio.read_bytes()
    except OSError as error:
        raise ConfigError(str(audio), f"cannot be read ({error.strerror})") from error
    pcm48 = decode_speech(sound, None, SpeechLimits(len(sound) + 1, 24 * 3600.0))
    packet = packet_of()
    engine = catalog.create(engine_name)
    speaker = talking.Speaker.of(engine, packet, max(packet.size_px), finish.badge)
    began_s = time.perf_counter()
    with Progress(console=Console(stderr=True, quiet=as_json), transient=True) as progress:
        task = progress.add_task(f"rendering {out.name}", total=None)
        frames = talking.film(
            speaker, pcm48, out, lambda done, total: progress.update(task, completed=done, total=total)
        )
    elapsed_s = time.perf_counter() - began_s
    if finish.signer is not None:
        finish.signer.sign(out)
    report = {
        "engine": engine_name,
        "frames": frames,
        "seconds": round(len(pcm48) / 48_000, 3),
        "elapsed_s": round(elapsed_s, 3),
        "frames_per_s": round(frames / elapsed_s, 1),
    }
    typer.echo(json.dumps(report) if as_json else f"{out}: {frames} frames in {elapsed_s:.1f} s")
