"""A visitor's picture buffer: what comes late is waited for, what never comes is skipped, as in a browser."""

from __future__ import annotations

import pytest
from aiortc import rtp

from streamer.clock import NS_PER_MS, ManualClock
from streamer.soak.picture_buffer import PictureBuffer

pytestmark = pytest.mark.unit

KEYFRAME, DELTA = b"\x10\x02\x00\x9d\x01\x2a", b"\x11\x02\x00abc"


@pytest.fixture
def clock():
    return ManualClock()


@pytest.fixture
def pictures(clock):
    return PictureBuffer(clock)


def packet(seq, timestamp=0, data=DELTA, marker=1):
    made = rtp.RtpPacket(payload_type=97, sequence_number=seq & 0xFFFF, timestamp=timestamp, ssrc=7, marker=marker)
    made._data = data
    return made


def shown(pictures):
    stamps = []
    while (found := pictures.whole()) is not None:
        assert found[0] == 97
        stamps.append(found[1].timestamp)
    return stamps


def test_pictures_behind_a_late_packet_all_show_when_it_comes(pictures):
    pictures.add(packet(0xFFFE, 0, KEYFRAME))
    assert shown(pictures) == [0]
    for number in (2, 3, 4):
        assert pictures.add(packet(0xFFFE + number, number)) == (False, None)
        assert shown(pictures) == []
    pictures.add(packet(0xFFFF, 1))
    assert shown(pictures) == [1, 2, 3, 4]


async def test_lost_packet_is_asked_for_again_until_it_comes(pictures, clock):
    pictures.add(packet(0, 0, KEYFRAME))
    pictures.add(packet(3, 3))
    assert pictures.missing() == []  # aiortc has just asked
    await clock.advance(60 * NS_PER_MS)
    assert pictures.missing() == [1, 2]
    assert pictures.missing() == []
    pictures.add(packet(1, 1))
    await clock.advance(60 * NS_PER_MS)
    assert pictures.missing() == [2]


async def test_lost_packet_is_not_asked_for_for_ever(pictures, clock):
    pictures.add(packet(0, 0, KEYFRAME))
    pictures.add(packet(2, 2))
    asked = 0
    for _ in range(40):
        await clock.advance(60 * NS_PER_MS)
        asked += len(pictures.missing())
    assert asked == PictureBuffer.MOST_TIMES - 1


async def test_what_cannot_be_had_any_more_is_skipped_up_to_the_next_keyframe(pictures, clock):
    pictures.add(packet(0, 0, KEYFRAME))
    assert shown(pictures) == [0]
    pictures.add(packet(2, 2))
    await clock.advance(PictureBuffer.LONGEST_NS)
    assert pictures.add(packet(3, 3)) == (True, None)
    assert pictures.add(packet(4, 4)) == (False, None)  # asked a moment ago
    assert shown(pictures) == []
    pictures.add(packet(5, 5, KEYFRAME, marker=0))
    pictures.add(packet(6, 5))
    assert shown(pictures) == [5]


async def test_a_keyframe_that_waits_behind_a_hole_is_gone_on_with(pictures, clock):
    pictures.add(packet(0, 0, KEYFRAME))
    shown(pictures)
    for seq in (2, 3, 5):
        pictures.add(packet(seq, seq, KEYFRAME if seq == 3 else DELTA))
    await clock.advance(PictureBuffer.LONGEST_NS)
    assert pictures.add(packet(6, 6)) == (False, None)
    assert shown(pictures) == [3]
    pictures.add(packet(4, 4))
    assert shown(pictures) == [4, 5, 6]


async def test_visitor_who_comes_in_between_asks_for_a_whole_picture(pictures, clock):
    assert pictures.add(packet(7, 7)) == (True, None)
    assert pictures.add(packet(8, 8)) == (False, None)
    await clock.advance(PictureBuffer.KEYFRAME_GAP_NS)
    assert pictures.add(packet(9, 9)) == (True, None)
    assert shown(pictures) == []
    pictures.add(packet(10, 10, b"\x00\x00\x00\x01\x67rest", marker=0))
    pictures.add(packet(11, 10))
    assert shown(pictures) == [10]
