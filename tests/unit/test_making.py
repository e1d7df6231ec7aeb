"""The line of uploads: bounded in jobs and in what arrives at once; ended jobs are remembered for a while."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

import pytest

from avatars.store import AvatarStore
from streamer.errors import ConfigError, MakingFull
from streamer.making import KEPT_JOBS, WAITING_JOBS, Making
from streamer.webhook import check_url

pytestmark = pytest.mark.unit


@pytest.fixture
def making(tmp_path):
    with ThreadPoolExecutor(1) as executor:
        yield Making(AvatarStore(tmp_path / "store"), executor)


def arrive(making, avatar_id):
    with making.arriving() as folder:
        source = folder / avatar_id
        source.write_bytes(b"no picture")
        return making.submit(avatar_id, source)


async def end(making, job):
    """As `Making.run` would end it."""
    assert await making._line.get() is job
    job.state = "ready"
    making.discard(job.source.parent)


async def test_ended_jobs_are_remembered_up_to_the_limit_and_the_oldest_goes_first(making):
    jobs = []
    for i in range(KEPT_JOBS + 6):
        jobs.append(arrive(making, f"a{i}"))
        await end(making, jobs[-1])
    assert [making.get(job.job_id) is job for job in jobs] == [False] * 6 + [True] * KEPT_JOBS


def test_no_more_uploads_arrive_at_once_than_may_wait(making):
    with ExitStack() as arriving:
        folders = [arriving.enter_context(making.arriving()) for _ in range(WAITING_JOBS)]
        with pytest.raises(MakingFull), making.arriving():
            pass
    assert not any(folder.exists() for folder in folders)
    job = arrive(making, "anna")
    assert job.source.exists()
    making.discard(job.source.parent)


def test_an_upload_that_breaks_off_leaves_nothing_on_disk(making):
    places = []

    def break_off():
        with making.arriving() as folder:
            places.append(folder)
            (folder / "anna").write_bytes(b"half a pict")
            raise ConnectionResetError

    with pytest.raises(ConnectionResetError):
        break_off()
    assert not places[0].exists()


@pytest.mark.parametrize(
    "url",
    [
        *("http://[abc", "http://a:99999/", "http://℀.example", "http:///x", "gopher://a/", "http://user@a/"),
        *("http://[64:ff9b::7f00:1]/", "http://[64:ff9b::a00:1]/", "http://[2002:7f00:1::]/", "http://[fe80::1]/"),
        *("http://10.1.2.3/", "http://100.64.0.1/", "http://224.0.0.1/", "http://printer.local/", "http://[::1]/"),
    ],
)
def test_a_webhook_into_a_private_network_or_to_nowhere_is_refused(url):
    with pytest.raises(ConfigError):
        check_url(url)


def test_a_webhook_to_a_public_address_is_taken():
    assert check_url("https://[64:ff9b::808:808]:8443/done") == "https://[64:ff9b::808:808]:8443/done"
