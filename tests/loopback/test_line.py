"""The whole line of a real server, from microphone to decoded pictures and sound: two visitors at once, odd sizes."""

from __future__ import annotations

import asyncio
from contextlib import ExitStack
from pathlib import Path

import cv2
import numpy as np
import pytest

from avatars.bundled import bundled_portraits
from avatars.picture import load_picture
from avatars.store import AvatarStore
from avatars.workshop import Workshop
from streamer.bench.bursts import burst_microphone
from streamer.bench.call import visit
from streamer.bench.lips import LipReader
from streamer.bench.lipsync import find_in
from streamer.bench.witness import Witness
from streamer.clock import MonotonicClock
from streamer.media import SOUND_HZ
from streamer.soak.client import Visit
from streamer.speech import decode_speech

pytestmark = pytest.mark.loopback

DATA = Path(__file__).parents[1] / "data"
SAID_S, EARLY_S, LATE_S, STAY_S = 3.0, 1.0, 5.0, 9.0
OPEN = 1.5
"""How many times as far apart as at rest lips are that speak."""
SHUT = 1.3
"""How far a reading of shut lips strays: the face mesh moves a little with every blink."""


def microphone(file, start_s):
    """Three seconds of a recording, from `start_s` on; silence around them."""
    clip = decode_speech((DATA / file).read_bytes(), None)[SOUND_HZ // 2 :][: int(SAID_S * SOUND_HZ)]
    pcm48 = np.zeros(int(STAY_S * SOUND_HZ), np.int16)
    pcm48[int(start_s * SOUND_HZ) :][: len(clip)] = clip
    return pcm48, clip


def level_db(sound, clip):
    """How loud `clip` is in `sound` where it matches best, against its own level."""
    at, _ = find_in(sound, clip)
    piece, whole = sound[at : at + len(clip)].astype(np.float64), clip.astype(np.float64)
    return 20 * np.log10(abs(float(piece @ whole)) / float(whole @ whole) + 1e-9)


async def both(server, witnesses, sounds):
    """Two visitors at once, each with an avatar and a voice of its own."""
    async with asyncio.TaskGroup() as group:
        for witness, sound, avatar in zip(witnesses, sounds, ("ruby", "mateo"), strict=True):
            url = f"{server.url}api/sessions?avatar={avatar}&source=mirror"
            group.create_task(visit(url, witness.plan(sound), MonotonicClock(), STAY_S + 0.5))


@pytest.fixture(scope="module")
def two(server):
    """What two visitors saw and heard who spoke one after the other: (witness, readings, own clip, start of it)."""
    early, early_clip = microphone("librivox_austen_0890.flac", EARLY_S)
    late, late_clip = microphone("flite_rms_evening.flac", LATE_S)
    with ExitStack() as stack:
        witnesses = [stack.enter_context(Witness(LipReader())) for _ in range(2)]
        asyncio.run(both(server, witnesses, (early, late)))
        found = []
        for witness, clip in zip(witnesses, (early_clip, late_clip), strict=True):
            at, match = find_in(witness.sound(), clip)
            assert match > 0.5, "a visitor did not hear its own voice"
            found.append((witness, witness.readings(), clip, at))
    return found


def test_two_visitors_never_hear_each_other(two):
    (first, _, early_clip, early_at), (second, _, late_clip, late_at) = two
    after = first.sound()[early_at + len(early_clip) + SOUND_HZ // 2 :]
    before = second.sound()[:late_at]
    assert level_db(before, early_clip) < -40
    assert level_db(after, late_clip) < -40


def test_two_visitors_never_see_each_other_speak(two):
    for (witness, readings, clip, at), speaks_first in zip(two, (True, False), strict=True):
        start_s = witness.heard_s(at)
        times_s = np.array([witness.shown_s(reading.pts) - start_s for reading in readings])
        gaps = np.array([reading.gap for reading in readings])
        own = (times_s > 0) & (times_s < len(clip) / SOUND_HZ)
        others = times_s > len(clip) / SOUND_HZ + 0.5 if speaks_first else (times_s > 0.5 - LATE_S) & (times_s < -0.3)
        rest = np.median(gaps[others])
        assert gaps[own].max() > OPEN * rest
        assert gaps[others].max() < SHUT * rest


@pytest.fixture(scope="module")
def odd_avatar(avatars_dir, tmp_path_factory):
    """An avatar from a portrait of 641 x 481."""
    ruby = next(portrait for portrait in bundled_portraits() if portrait.id == "ruby")
    picture = cv2.resize(load_picture(ruby.path), (768, 768))[40 : 40 + 481, 64 : 64 + 641]
    assert picture.shape == (481, 641, 3)
    path = tmp_path_factory.mktemp("portraits") / "odd.png"
    cv2.imwrite(str(path), picture[..., ::-1])
    return Workshop(AvatarStore(avatars_dir)).make(path, "odd").avatar_id


@pytest.mark.parametrize("codec", ["H264", pytest.param("VP8", marks=pytest.mark.long)])
def test_portrait_of_odd_size_streams_and_speaks(server, odd_avatar, codec):
    seen, bursts = [], burst_microphone(3, seed=0)
    url = f"{server.url}api/sessions?avatar={odd_avatar}&source=mirror&canvas=1024"
    plan = Visit(bursts.pcm48, codec, on_picture=lambda picture: seen.append(picture.planes))
    asyncio.run(visit(url, plan, MonotonicClock(), len(bursts.pcm48) / SOUND_HZ))
    assert {planes.shape for planes in seen} == {(480 * 3 // 2, 640)}
    reader = LipReader()
    gaps = [reader.gap(planes) for planes in seen]
    assert max(gaps) > OPEN * np.median(gaps)
