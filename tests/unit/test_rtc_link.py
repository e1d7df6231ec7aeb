"""Alive or gone: eight seconds of silence, and what counts as a word."""

from __future__ import annotations

import asyncio

import pytest
from aiortc.rtp import RtcpReceiverInfo

from streamer.clock import NS_PER_S, ManualClock
from streamer.errors import SignalingError
from streamer.rtc.aiortc_hooks import Feedback
from streamer.rtc.bitrate import BitrateControl, KeyframeGate, ResendBudget, Steering
from streamer.rtc.link import Link, SenderFeedback
from streamer.rtc.reports import MediaClock, ReportClock

pytestmark = pytest.mark.unit


async def test_silence_of_eight_seconds_ends_a_connected_peer():
    clock = ManualClock()
    link = Link(clock)
    async with asyncio.TaskGroup() as group:
        group.create_task(link.watch())
        await clock.advance(60 * NS_PER_S)
        assert link.ended is None
        link.note_state("connected")
        await clock.advance(7 * NS_PER_S)
        link.note_alive()
        await clock.advance(7 * NS_PER_S)
        assert link.ended is None
        await clock.advance(NS_PER_S)
        assert link.ended == "silent"
        assert link.gone.is_set()


async def test_stall_of_our_own_is_no_silence_of_the_peer():
    clock = ManualClock()
    link = Link(clock)
    async with asyncio.TaskGroup() as group:
        link.note_state("connected")
        group.create_task(link.watch())
        await clock.advance(NS_PER_S)
        clock._now_ns += 20 * NS_PER_S  # nothing of ours ran for so long; what came meanwhile is still unread
        await clock.advance(NS_PER_S // 2)
        link.note_alive()
        await clock.advance(7 * NS_PER_S)
        assert link.ended is None
        await clock.advance(NS_PER_S)
        assert link.ended == "silent"


@pytest.mark.parametrize(
    ("states", "ended"),
    [(["connecting", "failed"], "failed"), (["connected", "failed"], "left"), (["connected", "closed"], "left")],
)
async def test_first_reason_for_the_end_counts(states, ended):
    link = Link(ManualClock())
    for state in states:
        link.note_state(state)
    link.end("closed")
    assert link.ended == ended
    assert not link.connected


async def test_waiting_for_a_connection_ends_with_it_or_with_an_error():
    link = Link(ManualClock())
    link.note_state("connected")
    await link.wait_connected(NS_PER_S)
    link.end("left")
    with pytest.raises(SignalingError) as refused:
        await link.wait_connected(NS_PER_S)
    assert refused.value.status == 408


def told(loss):
    info = RtcpReceiverInfo(
        ssrc=1, fraction_lost=int(loss * 256), packets_lost=0, highest_sequence=0, jitter=0, lsr=0, dlsr=0
    )
    return Feedback(report=info)


@pytest.mark.parametrize(
    ("losses", "keyframes"),
    [([0.0, 0.05, 0.0], 0), ([0.3, 0.3, 0.05], 0), ([0.3, 0.05, 0.0, 0.0], 1), ([0.3, 0.0, 0.3, 0.0], 2)],
)
async def test_peer_gets_a_whole_picture_after_a_heavy_loss_though_it_does_not_ask(losses, keyframes):
    clock = ManualClock()
    steering = Steering(BitrateControl(500_000), KeyframeGate(), ResendBudget())
    feedback = SenderFeedback(Link(clock), ReportClock(MediaClock(), 90_000), clock, steering)
    for loss in losses:
        feedback.heard(told(loss))
    assert steering.keyframes.requests == keyframes
