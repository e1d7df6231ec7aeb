"""The loop runs first where cores are few."""

from __future__ import annotations

import os
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from streamer.rtc.threads import CodecThreads
from streamer.threads import ERRANDS, FRAMES, give_way

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="threads have a priority of their own on Linux")


def niceness():
    return os.getpriority(os.PRIO_PROCESS, threading.get_native_id())


def test_a_thread_gives_way_and_the_others_do_not():
    before = niceness()
    with ThreadPoolExecutor(1, "renders", give_way, (before + 3,)) as executor:
        assert executor.submit(niceness).result() == before + 3
    assert niceness() == before


def test_giving_way_twice_never_takes_priority_back():
    def twice():
        give_way(ERRANDS)
        give_way(FRAMES)
        return niceness()

    with ThreadPoolExecutor(1) as executor:
        assert executor.submit(twice).result() >= ERRANDS


def test_pictures_give_way_to_the_loop_and_sound_does_not():
    with CodecThreads() as codecs:
        assert codecs.pictures.submit(niceness).result() >= FRAMES
        assert codecs.sound.submit(niceness).result() == niceness()
