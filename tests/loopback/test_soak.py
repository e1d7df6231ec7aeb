"""A soak says of every call that failed where it stood and why, and of refusals what the server said."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from streamer.bench.served import serve_command, served
from streamer.soak import report
from streamer.soak.plan import Profile
from streamer.soak.run import Options, Soak

pytestmark = [pytest.mark.loopback, pytest.mark.timeout(180)]

TWICE = Options(
    avatar="ruby", canvas_px=256, profiles={Profile.JOINER: 1}, seconds=90.0, cycles=2, stay_s=0.4, ramp_s=0.0
)
BRIEFLY = replace(TWICE, cycles=0, seconds=1.0)


def soaked(url, options):
    return asyncio.run(Soak(url, options, lambda record, now_s: None).run())


def test_calls_that_go_well_leave_nothing_to_tell(server):
    found = soaked(server.url, TWICE)
    assert (found["figures"]["calls"], found["failures"], found["refusals"]) == (2, [], {})
    assert "Calls that failed" not in report.page(found)


@pytest.mark.long
def test_call_that_failed_is_told_with_where_it_stood_and_why(server):
    found = soaked(server.url, replace(BRIEFLY, avatar="nobody"))
    (failed,) = found["failures"]
    assert (failed["client"], failed["stage"]) == (0, "offering")
    assert failed["reason"].startswith("404: ")
    assert "nobody" in failed["reason"]
    assert failed["reason"].replace("'", "&#x27;") in report.page(found)


@pytest.mark.long
def test_full_server_is_no_failure_and_its_words_are_counted(avatars_dir):
    with served(serve_command(avatars_dir, ("--sessions", "0"))) as full:
        found = soaked(full.url, BRIEFLY)
    assert found["failures"] == []
    assert sum(found["refusals"].values()) == found["figures"]["refused"] == 1
    assert next(iter(found["refusals"])).startswith("503: all # sessions")
    assert "all # sessions" in report.page(found)
