"""What is kept stays within its bounds, and a round a little too long is still mostly found."""

from __future__ import annotations

import pytest

from avatars.kept import Kept, KeptLately

pytestmark = pytest.mark.unit


def test_bytes_stay_within_bounds_and_most_of_a_long_round_is_found_again():
    made = []
    kept: Kept[bytes] = Kept(1000, len)
    for index in range(36):
        kept.get(index % 12, lambda i=index: made.append(i) or bytes(100))
        assert kept.nbytes <= 1000
    assert len(made) <= 12 + 2 * 3


def test_what_is_larger_than_all_room_is_kept_alone():
    kept: Kept[bytes] = Kept(1000, len)
    kept.get("small", lambda: bytes(10))
    large = kept.get("large", lambda: bytes(5000))
    assert kept.get("large", lambda: b"") is large
    assert kept.nbytes == 5000
    kept.get("small", lambda: bytes(10))
    assert kept.nbytes == 10


def test_the_latest_few_are_found_again():
    kept: KeptLately[object] = KeptLately(3)
    things = [kept.get(index, object) for index in range(5)]
    assert all(kept.get(index, object) is things[index] for index in (2, 3, 4))
    assert kept.get(0, object) is not things[0]
