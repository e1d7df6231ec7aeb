"""Compose and playout: what the viewer sees when mouths are late, and that sound and picture never part."""

from __future__ import annotations

import numpy as np
import pytest

from streamer.clock import NS_PER_MS, NS_PER_S, ManualClock
from streamer.media import FRAME_NS, SOUND_HZ, AudioWindow, FrameSound, PictureKind, RenderedMouth, SoundBlock, Stamps
from streamer.pipeline import playout
from streamer.pipeline.compose import Composer
from streamer.pipeline.ingest import Ingest
from streamer.pipeline.playout import Playout
from streamer.pipeline.vad import Vad
from streamer.pipeline.window import Windower, WindowSettings

pytestmark = pytest.mark.unit

ANCHOR = np.zeros((24, 16), np.uint8)
OPEN = np.full((24, 16), 200, np.uint8)


class PlainStage:
    """A canvas of flat colours: the composer's decisions are what is under test."""

    def anchor(self, index):
        return ANCHOR

    def mix(self, a, b, weight, index):
        return np.rint(a * (1 - weight) + b * weight).astype(np.uint8)


def window(index, *, voiced=True, generation=0):
    return AudioWindow(index, np.zeros(1), voiced, generation, Stamps())


def sound(index, *, speech=True, generation=0):
    return FrameSound(index, np.full(1920, index, np.int16), speech, generation, Stamps())


def give(composer, index, *, voiced=True, generation=0):
    composer.take_sound(sound(index, speech=voiced, generation=generation))
    composer.take_window(window(index, voiced=voiced, generation=generation))


def mouth(index, planes=OPEN, generation=0):
    return RenderedMouth(index, generation, planes, index)


def show(composer, index):
    return composer.picture(index, index * FRAME_NS)


def speaking(index):
    """A composer whose mouth is open, about to show `index` with its mouth."""
    composer = Composer(PlainStage())
    for i in range(index + 1):
        give(composer, i)
        composer.take_mouth(mouth(i))
    for i in range(index):
        show(composer, i)
    return composer


def test_mouth_eases_open_in_the_first_frame_after_silence():
    composer = speaking(0)
    assert int(show(composer, 0).planes[0, 0]) == 100


def test_rendered_mouth_is_shown_with_its_own_sound():
    composer = speaking(2)
    picture = show(composer, 2)
    assert picture.kind is PictureKind.VOICED
    assert picture.planes is OPEN
    assert (picture.pcm48 == 2).all()


def test_late_patch_holds_the_last_valid_mouth_for_200_ms_then_eases_to_the_anchor():
    composer = speaking(2)
    for i in range(3, 14):
        give(composer, i)
    shown = [show(composer, i) for i in range(2, 14)]
    assert [p.kind for p in shown[:6]] == [PictureKind.VOICED] + [PictureKind.HELD] * 5
    assert all(p.kind is PictureKind.LATE for p in shown[6:])
    levels = [int(p.planes[0, 0]) for p in shown[5:10]]
    assert levels[0] == 200
    assert 0 < levels[2] < levels[1] < 200
    assert levels[3:] == [0, 0]
    assert all((p.pcm48 == p.index).all() for p in shown)


def test_mouth_left_open_when_speech_ends_eases_shut_in_two_frames():
    composer = speaking(2)
    for i in range(3, 8):
        give(composer, i, voiced=False)
    levels = [int(show(composer, i).planes[0, 0]) for i in range(2, 8)]
    assert levels[0] == 200
    assert 200 > levels[1] > levels[2] > 0
    assert levels[3:] == [0, 0, 0]


def test_no_sound_gives_the_anchor_and_silence_never_black_or_nothing():
    picture = show(Composer(PlainStage()), 7)
    assert picture.kind is PictureKind.IDLE
    assert picture.planes is ANCHOR
    assert not picture.pcm48.any()


def test_interrupt_silences_what_was_already_composed():
    composer = Composer(PlainStage())
    for i in range(1, 4):
        give(composer, i)
        composer.take_mouth(mouth(i))
    composer.generation = 1
    assert not show(composer, 1).pcm48.any()
    assert show(composer, 3).kind is PictureKind.IDLE


def test_failed_mouth_is_counted_and_the_sound_goes_on():
    composer = Composer(PlainStage())
    give(composer, 1)
    composer.take_mouth(mouth(1, planes=None))
    picture = show(composer, 1)
    assert composer.counts.failed_mouths == 1
    assert picture.kind is PictureKind.LATE
    assert (picture.pcm48 == 1).all()


def test_late_lookahead_costs_a_mouth_never_the_sound():
    composer = Composer(PlainStage())
    give(composer, 0)
    composer.take_mouth(mouth(0))
    composer.take_sound(sound(1))
    show(composer, 0)
    picture = show(composer, 1)
    assert picture.kind is PictureKind.HELD
    assert (picture.pcm48 == 1).all()


def releases(core, now_ns, until_ns):
    """(time, indices) of what is released from `now_ns` on."""
    found = []
    while now_ns <= until_ns:
        found += [(now_ns, index) for index in core.due(now_ns)]
        now_ns = max(now_ns + 1, core.next_release_ns)
    return found


def test_playout_releases_each_index_once_and_on_time():
    core, delay_ns = Playout(1_000, 100 * NS_PER_MS), 100 * NS_PER_MS
    assert list(core.due(1_000 + delay_ns - 1)) == []
    found = releases(core, 1_000 + delay_ns, 1_000 + delay_ns + NS_PER_S)
    assert found == [(1_000 + delay_ns + index * FRAME_NS, index) for index in range(26)]


def test_short_stall_loses_nothing_and_lets_the_backlog_out_bit_by_bit():
    core, woke_ns = Playout(0, 0), 7 * FRAME_NS
    core.due(0)
    found = releases(core, woke_ns, woke_ns + 100 * NS_PER_MS)
    assert [index for _, index in found] == [1, 2, 3, 4, 5, 6, 7, 8, 9]
    assert found[0][0] > woke_ns, "what came meanwhile goes first"
    times = [at for at, _ in found]
    assert len(set(times)) == len(times)
    assert found[7][0] <= woke_ns + 80 * NS_PER_MS


def test_long_stall_gives_the_backlog_up_and_resumes_at_once():
    core = Playout(0, 0)
    core.due(0)
    assert list(core.due(2 * NS_PER_S)) == [50]
    assert core.counts.skipped_frames == 49


async def test_playout_task_paces_pictures_at_25_a_second():
    clock, shown = ManualClock(), []
    core = Playout(0, 0)
    import asyncio

    async with asyncio.TaskGroup() as group:
        task = group.create_task(playout.run(core, lambda i, now: (i, now), shown.append, clock))
        await clock.advance(10 * NS_PER_S)
        task.cancel()
    assert len(shown) == 251
    assert all(now == i * FRAME_NS for i, now in shown)


LONG = [pytest.mark.long, pytest.mark.timeout(1800)]


@pytest.mark.parametrize(
    ("ppm", "hours"),
    [
        (200.0, 1 / 6), pytest.param(-200.0, 1 / 6, marks=pytest.mark.long),
        pytest.param(200.0, 8, marks=LONG), pytest.param(-200.0, 8, marks=LONG),
    ],
)  # fmt: skip
def test_sound_and_mouth_stay_together_for_hours_with_a_drifting_source(ppm, hours):
    """Flash and click through the real cores: a click at source second k must come out with the frame that shows it."""
    seconds, step_s = int(hours * 3600), 5
    ingest, vad = Ingest(0), Vad()
    windower = Windower(WindowSettings(640, 840))
    core, composer = Playout(0, 140 * NS_PER_MS), Composer(PlainStage())
    offsets, position, packet = [], 0, 960
    pending_index = None
    while position < seconds * SOUND_HZ:
        arrived = int((position + packet) * NS_PER_S / (SOUND_HZ * (1 + ppm * 1e-6)))
        pcm = np.zeros(packet, np.int16)
        if position % (step_s * SOUND_HZ) == 0 and position:
            pcm[480] = 30_000
        while core.next_release_ns < arrived:
            for index in core.due(core.next_release_ns):
                picture = composer.picture(index, core.deadline_ns(index))
                loud = np.flatnonzero(np.abs(picture.pcm48.astype(np.int32)) > 8_000)
                audio_s = (index * 1920 + loud[0]) / SOUND_HZ if len(loud) else 0.0
                if len(loud) and (not offsets or audio_s - offsets[-1][0] > 0.04):  # not a click's second half
                    assert picture.index == index
                    offsets.append((audio_s, (pending_index - index) * 40.0))
        chunks = []
        while ingest.next_fill_ns < arrived:
            chunks += ingest.fill(ingest.next_fill_ns)
        chunks += ingest.push(SoundBlock(pcm, position, arrived), arrived)
        for chunk in chunks:
            for made in windower.push(vad.push(chunk, arrived), arrived):
                if isinstance(made, AudioWindow):
                    if np.abs(made.samples16[648:1288]).max() > 0.1:
                        pending_index = made.index  # the frame an engine would be asked to show open
                    composer.take_window(made)
                else:
                    composer.take_sound(made)
        position += packet
    assert len(offsets) >= seconds // step_s - 2
    at_s, offset_ms = np.array(offsets).T
    print(f"{hours:.2f} h at {ppm:+.0f} ppm: {len(offsets)} clicks, {offset_ms.min():.0f} to {offset_ms.max():.0f} ms")
    assert np.abs(offset_ms).max() <= 40.0
    assert abs(np.polyfit(at_s / 60, offset_ms, 1)[0]) < 1.0
    # The grid follows the source: what was said at source second k is heard k seconds in, give or take the drift band.
    said_s = np.arange(1, len(at_s) + 1) * step_s / (1 + ppm * 1e-6)
    assert np.abs(at_s - said_s - (at_s - said_s)[0]).max() < 0.04
