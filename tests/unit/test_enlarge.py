"""Enlarging a small picture to Y, U and V: as OpenCV would, in sizes whose rows libswscale pads."""

from __future__ import annotations

import threading

import cv2
import numpy as np
import pytest

from avatars.colour import rgb_to_planes
from avatars.enlarge import Enlarger

pytestmark = pytest.mark.unit


def picture(width, height, seed=1):
    noise = np.random.default_rng(seed).integers(0, 256, (height, width, 3), dtype=np.uint8)
    return cv2.GaussianBlur(noise, (0, 0), 3.0)


@pytest.mark.parametrize(("size", "larger"), [((131, 77), (178, 118)), ((64, 33), (130, 66)), ((261, 165), (366, 350))])
def test_planes_are_those_of_the_picture_enlarged_by_opencv(size, larger):
    small = picture(*size)
    expected = rgb_to_planes(np.asarray(cv2.resize(small, larger, interpolation=cv2.INTER_LINEAR)))
    for found, wanted in zip(Enlarger(size, larger).planes(small), expected, strict=True):
        assert np.abs(found.astype(int) - wanted).max() <= 2


def test_planes_stay_as_they_are_while_threads_enlarge_more():
    enlarger = Enlarger((96, 96), (140, 140))
    pictures = [picture(96, 96, seed) for seed in range(4)]
    expected = [[plane.copy() for plane in enlarger.planes(p)] for p in pictures]
    wrong = []

    def work(which):
        held = [enlarger.planes(pictures[which]) for _ in range(100)]
        wrong.extend(
            which for planes in held for a, b in zip(planes, expected[which], strict=True) if not np.array_equal(a, b)
        )

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
