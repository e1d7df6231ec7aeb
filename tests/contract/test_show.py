"""A scripted show rendered to a film: the mouths that move are those whose turn it is, and nobody else is heard."""

from __future__ import annotations

import json
from pathlib import Path

import av
import numpy as np
import pytest

from avatars.canvas import Canvas
from avatars.faces import FaceMesh
from avatars.store import AvatarStore
from engines import catalog
from streamer.bench.lips import CHIN, FOREHEAD, INNER_LIPS
from streamer.errors import ConfigError
from streamer.film import FILM, recording
from streamer.media import FRAME_SAMPLES
from streamer.performer import Speaker
from streamer.roundtable.production import Production
from streamer.roundtable.rundown import lay_out, read_show
from streamer.speech import decode_speech

pytestmark = pytest.mark.contract
ROOT = Path(__file__).parents[2]
SAMPLE = ROOT / "web/samples/evening-news.ogg"

SHOW = """
width = 960
height = 400
captions = false
[[seats]]
seat = "ruby"
avatar = "ruby"
[[seats]]
seat = "blaze"
avatar = "blaze"
[[seats]]
seat = "mateo"
avatar = "mateo"
[[rundown]]
seat = "blaze"
audio = "a.ogg"
[[rundown]]
pause_s = 0.2
[[rundown]]
seat = "ruby"
audio = "a.ogg"
[[rundown]]
seat = "mateo"
audio = "a.ogg"
"""


@pytest.mark.long
def test_only_the_mouth_whose_turn_it_is_moves_in_the_rendered_show(tmp_path, store):
    (tmp_path / "show.toml").write_text(SHOW)
    show = read_show(tmp_path / "show.toml")
    said = decode_speech(SAMPLE.read_bytes(), None)[20_000 : 20_000 + 48_000 * 3 // 2]
    timeline = lay_out(show, {0: said, 2: said, 3: said})
    engine = catalog.create("warp")
    packets = {seat.seat: store.open(seat.avatar) for seat in show.seats}
    speakers = {name: Speaker(engine, engine.attach(p), Canvas(p, 512)) for name, p in packets.items()}
    path = tmp_path / "show.mp4"
    with recording(path, (960, 400), FILM) as film:
        for picture in Production(show, timeline, speakers).pictures():
            film.add(picture.index, picture.planes, picture.pcm48)
        assert film.frames == timeline.frames
    gaps = lip_gaps(path, [seat.seat for seat in show.seats])
    for cue in timeline.cues:
        if cue.sound is None:
            continue
        turn = slice((cue.index + 4) // 2, (cue.index + len(cue.sound) // FRAME_SAMPLES - 4) // 2)
        moves = {seat: float(np.std(values[turn])) for seat, values in gaps.items()}
        mine = moves.pop(cue.line.seat)
        assert mine > 0.8  # 0.99 to 1.10 here; a still mouth reads 0.02 at most
        assert max(moves.values()) < 0.3 * mine


def lip_gaps(path, seats):
    """Lip gap of each seat, left to right, in every second frame, hundredths of the face's height."""
    mesh, found = FaceMesh(), {seat: [] for seat in seats}
    faces = {}
    with av.open(str(path)) as film:
        for number, frame in enumerate(film.decode(video=0)):
            if number % 2:
                continue
            rgb = frame.to_ndarray(format="rgb24")
            for place, seat in enumerate(seats):
                tile = np.ascontiguousarray(rgb[:, place * 320 : (place + 1) * 320])
                faces[seat] = mesh.follow(tile, faces[seat]) if seat in faces else mesh.find(tile)[0]
                points = faces[seat].points
                gap = np.mean([np.linalg.norm(points[a] - points[b]) for a, b in INNER_LIPS])
                found[seat].append(100 * gap / np.linalg.norm(points[FOREHEAD] - points[CHIN]))
    return {seat: np.array(values) for seat, values in found.items()}


@pytest.fixture
def store(avatars_dir):
    made = AvatarStore(avatars_dir)
    made.ensure_bundled(lambda avatar_id, done: None)
    return made


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"seat": "nobody", "text": "x"}, "no seat 'nobody'"),
        ({"seat": "ruby"}, "either text or audio"),
        ({"seat": "ruby", "text": "x", "pause_s": 1}, "either a seat"),
        ({"pause_s": 9999}, "pause_s must be"),
        ({"text": "x"}, "either a seat"),
        ({"layout": "spiral"}, "spiral"),
        ({"layout": "focus", "featured": ["nobody"]}, "no seat 'nobody'"),
        ({"volume": 11}, "volume"),
    ],
)
def test_line_that_makes_no_sense_is_named_with_what_is_wrong(tmp_path, change, words):
    path = tmp_path / "show.json"
    path.write_text(json.dumps({"seats": [{"seat": "ruby", "avatar": "ruby"}], "rundown": [change]}))
    with pytest.raises(ConfigError, match=words):
        read_show(path)


def test_example_in_the_documents_is_a_show():
    show = read_show(ROOT / "docs/shows/evening.toml")
    assert len(show.seats) == 3
    assert {line.seat for line in show.rundown if line.seat} == {"ruby", "blaze", "mateo"}
