"""Log lines say what happened and with what; a sink that stands still holds nobody up and loses lines in the open."""

from __future__ import annotations

import logging
import os
from contextlib import suppress

import pytest

from streamer.commands.serving import log_handler
from streamer.telemetry import logs
from streamer.telemetry.logs import Line, Scribe

pytestmark = pytest.mark.unit


def record(event="session_failed", **fields):
    made = logging.makeLogRecord({"name": "streamer.session", "levelname": "INFO", "msg": event})
    vars(made).update(fields)
    return made


def test_line_has_the_event_and_its_fields():
    said = Line("%(levelname)s %(name)s %(message)s").format(record(session="ab12", reason="silent"))
    assert said == "INFO streamer.session session_failed session=ab12 reason=silent"


def test_what_a_visitor_sends_cannot_forge_a_line():
    said = Line("%(message)s").format(record(reason="no\nINFO streamer.session all_is_well"))
    assert "\n" not in said


def test_fields_stand_before_a_traceback():
    try:
        raise ValueError("no")
    except ValueError as error:
        made = record(session="ab12")
        made.exc_info = (ValueError, error, error.__traceback__)
    first, *rest = Line("%(message)s").format(made).split("\n")
    assert first == "session_failed session=ab12"
    assert rest[-1] == "ValueError: no"


@pytest.fixture
def pipe():
    ends = os.pipe()
    yield ends
    for end in ends:
        os.close(end)


def test_what_waits_is_written_before_the_end(pipe):
    reading, writing = pipe
    scribe = Scribe(writing)
    for number in range(50):
        scribe.handle(record(number=number))
    scribe.close()
    scribe.close()
    lines = os.read(reading, 65536).decode().splitlines()
    assert [line.rpartition("=")[2] for line in lines] == [str(number) for number in range(50)]


def test_lines_that_find_no_room_are_counted_and_the_next_reader_is_told(pipe, monkeypatch):
    reading, writing = pipe
    monkeypatch.setattr(logs, "MOST_WAITING", 10)
    monkeypatch.setattr(logs, "LEAVE_WITHIN_S", 20.0)
    os.set_blocking(writing, False)
    with suppress(BlockingIOError):
        while True:
            os.write(writing, b"." * 4096)
    os.set_blocking(writing, True)
    scribe = Scribe(writing)
    for number in range(100):
        scribe.handle(record(number=number))  # returns, though nobody reads
    heard = bytearray()
    while b"number=" not in heard:
        heard += os.read(reading, 65536)
    scribe.handle(record(number=100))
    os.set_blocking(reading, False)
    scribe.close()
    heard += os.read(reading, 65536)
    told = heard.lstrip(b".").decode().splitlines()
    kept = [line for line in told if "session_failed" in line]
    (lost,) = [int(line.rpartition("=")[2]) for line in told if "log_lines_lost" in line]
    assert len(kept) + lost == 101
    assert 10 <= len(kept) <= 12


@pytest.mark.parametrize("stderr", [None, object()], ids=["none", "a wrapper without a descriptor"])
def test_server_finds_where_to_log_whatever_standard_error_is(monkeypatch, stderr):
    monkeypatch.setattr("sys.stderr", stderr)
    if stderr is None:
        monkeypatch.setattr("sys.__stderr__", None)
    handler = log_handler()
    assert isinstance(handler, logging.NullHandler if stderr is None else Scribe)
    handler.close()
