"""Control messages: small JSON objects and nothing else."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamer.rtc.control import MAX_MESSAGE_BYTES, encode_message, read_message

pytestmark = pytest.mark.unit


@pytest.mark.parametrize(
    "data",
    [b"{}", "", "[]", "3", "null", "{", "[" * 16_000, '{"a":' * 3000, '{"x":"' + "y" * MAX_MESSAGE_BYTES + '"}'],
)
def test_what_is_no_small_object_is_no_message(data):
    assert read_message(data) is None


@given(st.dictionaries(st.text(max_size=9), st.one_of(st.integers(), st.text(max_size=9), st.booleans()), max_size=5))
def test_messages_survive_the_wire(message):
    assert read_message(encode_message(message)) == message


@given(st.one_of(st.text(), st.binary()))
def test_no_data_raises(data):
    read_message(data)


def test_numbers_that_json_cannot_say_are_refused():
    with pytest.raises(ValueError, match="JSON"):
        encode_message({"x": float("nan")})
