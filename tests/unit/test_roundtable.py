"""The table of a roundtable: where seats stand, what is drawn, who is heard, who speaks. All pure."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from avatars.colour import split_planes
from streamer.channel import Channel, ChannelClosed, WhenFull
from streamer.clock import NS_PER_MS, NS_PER_S, ManualClock
from streamer.errors import FloorError, SessionClosed
from streamer.graphics.lettering import Lettering
from streamer.graphics.overlay import lower_third
from streamer.media import FRAME_SAMPLES, Picture, PictureKind, SoundBlock, Stamps
from streamer.roundtable.arrangement import EASE_FRAMES, Arrangement, Arranger, Layout, arrange
from streamer.roundtable.board import Board, Look, Sitter, cut
from streamer.roundtable.floor import Floor, FloorMode
from streamer.roundtable.mix import CEILING, Mixer
from streamer.roundtable.seat import Port, Voice
from streamer.roundtable.speaker import ActiveSpeaker
from streamer.roundtable.table import Table
from streamer.roundtable.turns import Turns

pytestmark = pytest.mark.unit
SIZE = (1280, 720)
NAMES = ("ada", "ben", "cy", "dora", "eve", "finn", "gil", "hope")


def tone(hz, level=0.2, frame=0):
    t = (np.arange(FRAME_SAMPLES) + frame * FRAME_SAMPLES) / 48_000
    return np.rint(level * 32767 * np.sin(2 * np.pi * hz * t)).astype(np.int16)


def shade(value, side=128):
    planes = np.full((side * 3 // 2, side), 128, np.uint8)
    planes[:side] = value
    return planes


def overlap(a, b):
    ax1, ay1, ax2, ay2 = a.rect
    bx1, by1, bx2, by2 = b.rect
    return ax1 < bx2 and bx1 < ax2 and ay1 < by2 and by1 < ay2


@settings(max_examples=60, deadline=None, derandomize=True)
@given(
    count=st.integers(1, 8), layout=st.sampled_from(Layout),
    size=st.sampled_from([(1280, 720), (640, 640), (480, 854)]),
    featured=st.lists(st.sampled_from(NAMES), max_size=3),
)  # fmt: skip
def test_tiles_of_every_layout_lie_inside_the_picture_and_apart(count, layout, size, featured):
    places = arrange(Arrangement(layout, tuple(featured)), NAMES[:count], size)
    expected = {Layout.SOLO: 1, Layout.SIDE_BY_SIDE: min(2, count)}.get(layout, count)
    assert len(places) == expected
    for place in places.values():
        x1, y1, x2, y2 = place.rect
        assert 0 <= x1 < x2 <= size[0]
        assert 0 <= y1 < y2 <= size[1]
        assert not any(edge % 2 for edge in place.rect)
    listed = list(places.values())
    assert not any(overlap(a, b) for i, a in enumerate(listed) for b in listed[:i])


def test_speaker_in_focus_is_larger_than_all_others_together():
    places = arrange(Arrangement(Layout.FOCUS, ("cy",)), NAMES[:4], SIZE)
    areas = {seat: place.width * place.height for seat, place in places.items()}
    assert areas["cy"] > sum(area for seat, area in areas.items() if seat != "cy")


def test_change_of_layout_eases_in_and_out_and_lands_where_it_should():
    arranger = Arranger(NAMES[:4], SIZE, Arrangement())
    start = arranger.places(0)["ada"]
    arranger.change(Arrangement(Layout.FOCUS, ("ada",)), 10)
    goal = arrange(Arrangement(Layout.FOCUS, ("ada",)), NAMES[:4], SIZE)["ada"]
    widths = [arranger.places(index)["ada"].width for index in range(10, 11 + EASE_FRAMES)]
    steps = np.diff(widths)
    assert widths[0] == start.width
    assert widths[-1] == goal.width
    assert (steps >= 0).all()
    assert steps[0] < steps[len(steps) // 2] > steps[-1]


def test_second_change_in_the_middle_of_the_first_does_not_jump():
    arranger = Arranger(NAMES[:4], SIZE, Arrangement())
    arranger.change(Arrangement(Layout.FOCUS, ("ada",)), 0)
    before = arranger.places(7)
    arranger.change(Arrangement(Layout.SIDE_BY_SIDE, ("ben", "cy")), 7)
    assert arranger.places(7) == before


def test_only_the_tile_that_changed_is_drawn_again_and_a_given_picture_stays_as_it_is():
    board = Board(Look(SIZE, captions=False), {name: Sitter() for name in NAMES[:4]})
    places = arrange(Arrangement(), NAMES[:4], SIZE)
    pictures = {name: shade(60) for name in NAMES[:4]}
    first = board.draw(places, pictures)
    assert board.tiles_drawn == 4
    assert board.draw(places, pictures) is first
    kept = first.copy()
    second = board.draw(places, {**pictures, "ben": shade(200)})
    assert board.tiles_drawn == 5
    assert np.array_equal(first, kept)
    x1, y1, x2, y2 = places["ben"].rect
    changed = np.argwhere(split_planes(first)[0] != split_planes(second)[0])
    assert changed.min(axis=0).tolist() == [y1, x1]
    assert changed.max(axis=0).tolist() == [y2 - 1, x2 - 1]
    with pytest.raises(ValueError, match="read-only"):
        second[0, 0] = 1


def test_anchor_frames_that_come_round_are_not_scaled_again_but_mouths_never_mix_up():
    board = Board(Look(SIZE, captions=False), {"ada": Sitter()})
    places = arrange(Arrangement(), ["ada"], SIZE)
    cycle = [shade(40), shade(80)]
    for step in range(6):
        board.draw(places, {"ada": cycle[step % 2]}, None, ["ada"])
    for value in range(100, 160):
        seen = board.draw(places, {"ada": shade(value)})
        x1, y1, _, _ = places["ada"].rect
        assert seen[y1 + 30, x1 + 30] == value


def test_tile_is_cut_around_the_face_and_never_stretched():
    for tile in ((636, 356), (300, 700), (500, 500)):
        x1, y1, x2, y2 = cut((512, 512), tile, (0.5, 0.4))
        assert abs((x2 - x1) / (y2 - y1) - tile[0] / tile[1]) < 0.03
        assert 0 <= x1 < x2 <= 512
        assert 0 <= y1 < y2 <= 512


def test_names_are_shaped_letters_are_joined_and_missing_ones_come_from_another_font():
    lettering = Lettering()
    assert lettering.mask("AV", 30).shape[1] < lettering.mask("A", 30).shape[1] + lettering.mask("V", 30).shape[1]
    for name in ("Žofia Łęcka", "Ñandú"):
        mask = lettering.mask(name, 30)
        assert mask.max() == 255
        assert not np.array_equal(mask, Lettering().mask("\U0010fffe" * len(name), 30))


def test_lower_third_shows_bright_letters_on_a_dark_plate_and_is_left_out_of_tiny_tiles():
    plate = lower_third("Ruby Vance", "Anchor", (640, 360), (215, 38, 61), Lettering())
    luma = plate.planes[0]
    assert luma.max() > 200
    assert np.median(luma) < 60
    assert plate.size_px[0] <= 640 * 9 // 10
    assert lower_third("Ruby Vance", "Anchor", (80, 60), (215, 38, 61), Lettering()) is None


def test_badge_lies_in_the_corner_of_every_picture_and_does_not_darken():
    board = Board(Look(SIZE, badge="AI"), {"ada": Sitter()})
    places = arrange(Arrangement(), ["ada"], SIZE)
    corners = [board.draw(places, {"ada": shade(100 + step % 2)})[20:80, 1180:1270] for step in range(8)]
    assert corners[0].max() > 200
    assert np.array_equal(corners[0], corners[6])


@settings(max_examples=40, deadline=None, derandomize=True)
@given(
    levels=st.lists(st.floats(0.0, 1.0), min_size=4, max_size=4),
    gains=st.lists(st.floats(-20.0, 12.0), min_size=4, max_size=4),
)
def test_mix_never_clips_whatever_speaks_at_once(levels, gains):
    mixer = Mixer(dict(zip(NAMES, gains, strict=False)))
    for frame in range(4):
        sounds = {name: tone(200 + 170 * i, levels[i], frame) for i, name in enumerate(NAMES[:4])}
        whole, _ = mixer.mix(sounds, NAMES[:4])
        assert np.abs(whole.astype(int)).max() <= 32767
    assert np.abs(whole.astype(int)).max() <= 32767 * (CEILING + 0.05)


def test_each_participant_hears_all_but_themselves_by_far_more_than_forty_db():
    mixer = Mixer(dict.fromkeys(NAMES[:4], 0.0))
    hz = {"ada": 300, "ben": 500, "cy": 700, "dora": 900}
    heard = {name: [] for name in hz}
    for frame in range(50):
        _, mixes = mixer.mix({name: tone(h, 0.25, frame) for name, h in hz.items()}, hz, hz)
        for name, mix in mixes.items():
            heard[name].append(mix)
    for name, parts in heard.items():
        sound = np.concatenate(parts[5:]).astype(float)
        spectrum = np.abs(np.fft.rfft(sound * np.hanning(len(sound))))
        power = {n: spectrum[round(h * len(sound) / 48_000)] for n, h in hz.items()}
        for other in hz:
            if other != name:
                assert 20 * np.log10(power[other] / power[name]) > 40


def test_mute_and_gain_move_without_a_click():
    mixer = Mixer({"ada": 0.0})
    parts = [mixer.mix({"ada": tone(200, 0.3, f)}, ["ada"] if f < 5 else [])[0] for f in range(8)]
    sound = np.concatenate(parts).astype(int)
    assert np.abs(np.diff(sound)).max() < 400
    assert not parts[-1].any()


def test_quiet_sound_passes_the_limiter_untouched():
    mixer = Mixer({"ada": 0.0})
    for frame in range(3):
        sound = tone(440, 0.5, frame)
        whole, _ = mixer.mix({"ada": sound}, ["ada"])
    assert np.abs(whole.astype(int) - sound).max() <= 1


def run_levels(script, speaker=None):
    """(frames, {seat: level}) one after the other: who is active at the end of each."""
    speaker = speaker or ActiveSpeaker()
    found = []
    for frames, levels in script:
        for _ in range(frames):
            speaker.hear({"ada": 0.0, "ben": 0.0} | levels)
        found.append(speaker.active)
    return found


def test_cough_or_a_short_yes_takes_nobody_the_picture():
    assert run_levels([(50, {"ada": 0.1}), (5, {"ada": 0.1, "ben": 0.4}), (20, {"ada": 0.1})]) == ["ada"] * 3


def test_next_speaker_gets_the_picture_soon_after_the_first_has_ended():
    assert run_levels([(50, {"ada": 0.1}), (12, {}), (12, {"ben": 0.1})]) == ["ada", "ada", "ben"]


def test_louder_voice_that_goes_on_takes_over_and_two_alike_do_not_flicker():
    assert run_levels([(50, {"ada": 0.05}), (60, {"ada": 0.05, "ben": 0.2})]) == ["ada", "ben"]
    speaker, changes, last = ActiveSpeaker(), 0, None
    rng = np.random.default_rng(3)
    for _ in range(500):
        now = speaker.hear({"ada": 0.1 * rng.uniform(0.6, 1.4), "ben": 0.1 * rng.uniform(0.6, 1.4)})
        changes += now != last
        last = now
    assert changes <= 2


def test_pause_for_breath_changes_nothing():
    script = [(50, {"ada": 0.1})] + [(6, {}), (20, {"ada": 0.1})] * 4
    assert set(run_levels(script)) == {"ada"}


def test_open_floor_hears_all_but_the_muted():
    floor = Floor(NAMES[:3])
    floor.mute("ben")
    assert floor.audible == {"ada", "cy"}
    floor.mute("ben", muted=False)
    assert floor.audible == {"ada", "ben", "cy"}


def test_moderated_floor_is_given_to_raised_hands_in_order_and_taken_back():
    floor = Floor(NAMES[:3], FloorMode.MODERATED)
    assert not floor.audible
    floor.raise_hand("cy")
    floor.raise_hand("ada")
    floor.raise_hand("cy")
    assert floor.hands == ("cy", "ada")
    floor.grant("cy")
    assert (floor.audible, floor.hands) == ({"cy"}, ("ada",))
    floor.mute("cy")
    assert not floor.audible
    floor.mute("cy", muted=False)
    floor.revoke("cy")
    assert not floor.audible


def test_queue_lets_one_speak_after_the_other():
    floor = Floor(NAMES[:3], FloorMode.QUEUE)
    first, second = floor.take_turn("ben"), floor.take_turn("ada")
    assert floor.audible == {"ben"}
    floor.end_turn(first)
    assert floor.audible == {"ada"}
    floor.end_turn(second)
    floor.end_turn(second)
    assert not floor.audible


def test_seat_that_is_not_there_is_an_error_that_says_so():
    with pytest.raises(FloorError, match="no seat nobody"):
        Floor(NAMES[:3]).grant("nobody")


def test_frame_of_a_seat_shows_and_sounds_in_the_same_frame_of_the_room():
    table = Table(Look(SIZE, captions=False), {name: Sitter() for name in NAMES[:2]}, Layout.GRID, Floor(NAMES[:2]))
    silence = np.zeros(FRAME_SAMPLES, np.int16)

    def frame(index, loud):
        planes, sound = shade(220 if loud else 60), tone(400, 0.3) if loud else silence
        kind = PictureKind.VOICED if loud else PictureKind.IDLE
        quiet = Picture(index, shade(60), silence, PictureKind.IDLE, 0, Stamps())
        return {"ada": Picture(index, planes, sound, kind, 0, Stamps()), "ben": quiet}

    for index in range(20):
        mixed = table.lay(index, frame(index, loud=index in (7, 8)))
        bright = mixed.picture.planes[300:400, 100:500].mean() > 150
        assert bright == bool(np.abs(mixed.picture.pcm48.astype(int)).max() > 1000) == (index in (7, 8))


def test_seat_without_a_new_picture_keeps_its_last_and_is_silent():
    table = Table(Look(SIZE, captions=False), {"ada": Sitter()}, Layout.GRID, Floor(["ada"]))
    spoken = Picture(0, shade(200), tone(400), PictureKind.VOICED, 0, Stamps())
    first = table.lay(0, {"ada": spoken}).picture
    table.lay(1, {"ada": spoken})
    missing = table.lay(2, {}).picture
    assert np.array_equal(first.planes, missing.planes)
    assert not missing.pcm48.any()


def test_seat_whose_pictures_come_unevenly_gives_one_a_frame():
    clock = ManualClock()
    port, taken = Port(clock), []
    rng = np.random.default_rng(2)
    due = [(index * 40 + 15 + float(rng.uniform(-11, 11)), index) for index in range(200)]
    for tick in range(200):
        clock._now_ns = tick * 40 * NS_PER_MS
        while due and due[0][0] <= tick * 40:
            index = due.pop(0)[1]
            port.show(Picture(index, shade(60), tone(300), PictureKind.VOICED, 0, Stamps()))
        picture = port.take(clock.now_ns())
        if picture is not None:
            taken.append(picture.index)
    assert taken == list(range(len(taken)))
    assert len(taken) >= 197
    assert (port.repeated, port.skipped) == (0, 0)


def test_seat_that_stood_still_catches_up_in_silence_and_cuts_no_word():
    clock, silence = ManualClock(NS_PER_S), np.zeros(FRAME_SAMPLES, np.int16)
    port, taken = Port(clock), []
    index = 0

    def show(count, spoken):
        nonlocal index
        for _ in range(count):
            kind = PictureKind.VOICED if spoken else PictureKind.IDLE
            port.show(Picture(index, shade(60), tone(300) if spoken else silence, kind, 0, Stamps()))
            index += 1

    def tick():
        clock._now_ns += 40 * NS_PER_MS
        picture = port.take(clock.now_ns())
        if picture is not None:
            taken.append(picture.index)

    show(4, spoken=True)
    for _ in range(10):
        tick()
        show(1, spoken=True)
    assert taken == list(range(10))
    for _ in range(6):
        tick()
        show(1, spoken=False)
    assert port.skipped >= 1
    assert taken[:14] == list(range(14))


async def test_voice_without_the_floor_is_silence_at_the_seat_and_still_shows_its_level():
    for floor in (True, False):
        port = Port(ManualClock())
        voice = Voice(port, lambda floor=floor: floor)
        blocks = Channel("blocks", 8, WhenFull.DROP_OLDEST)
        blocks.put_nowait(SoundBlock(tone(300), 0, 0))
        blocks.close()
        with pytest.raises(ChannelClosed):
            await voice.run(blocks)
        assert bool(port.inbound.get_nowait().pcm48.any()) == floor
        assert voice.level > 0.05


def test_turn_of_a_seat_that_has_failed_is_passed_over():
    class Gone:
        def open_speech(self, seconds):
            raise SessionClosed

    floor = Floor(["ada", "bob"], FloorMode.QUEUE)
    turns = Turns(floor, lambda seat: Gone())
    turn = turns.add("ada", np.zeros(4800, np.int16))
    turns.follow()
    assert not turns.waits(turn)
