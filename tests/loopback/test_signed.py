"""A server with a certificate signs what it films. Needs the extra `c2pa`; skipped without it."""

from __future__ import annotations

from importlib import util

import aiohttp
import numpy as np
import pytest

from streamer.app import Server
from streamer.bench.served import served_here
from streamer.clock import NS_PER_S, MonotonicClock
from streamer.config import C2paConfig, Config, check
from streamer.pcm import wav_of

pytestmark = [
    pytest.mark.loopback,
    pytest.mark.skipif(util.find_spec("c2pa") is None, reason="needs the extra c2pa"),
]

CLOCK = MonotonicClock()


def verdict(path):
    """What a reader of the library's own says, whoever signed."""
    import c2pa

    settings = {"verify": {"verify_trust": False}}
    with c2pa.Context.from_dict(settings) as context, c2pa.Reader(path, context=context) as reader:
        return reader.get_validation_state()


async def ended(http, recording):
    """Stop a recording of a second; its view once it has ended."""
    path = f"/api/recordings/{recording}"
    while True:
        async with http.get(path) as response:
            view = await response.json()
        if view["state"] != "recording":
            return view
        if view["seconds"] >= 1:
            async with http.delete(path):
                pass
        await CLOCK.sleep_until(CLOCK.now_ns() + NS_PER_S // 20)


async def test_films_and_recordings_come_signed_and_webm_says_that_it_is_not(avatars_dir, tmp_path, papers):
    certificate, key, _ = papers(tmp_path / "papers")
    config = Config(
        port=0, avatars=str(avatars_dir), recordings=str(tmp_path / "films"),
        c2pa=C2paConfig(str(certificate), str(key)),
    )  # fmt: skip
    server = Server(check(config))
    async with served_here(server) as url, aiohttp.ClientSession(base_url=url) as http:
        hum = (8000 * np.sin(2 * np.pi * 150 * np.arange(24_000) / 48_000)).astype("<i2")
        sound = {"data": wav_of(hum), "headers": {"Content-Type": "audio/wav"}}
        async with http.post("/api/avatars/ruby/render?canvas=256", **sound) as response:
            assert (response.status, response.headers["X-Signed"]) == (200, "True")
            (tmp_path / "film.mp4").write_bytes(await response.read())
        assert verdict(tmp_path / "film.mp4") == "Valid"
        body = {"seats": [{"seat": "ada", "avatar": "ruby"}], "width": 320, "height": 256}
        async with http.post("/api/rooms?room=desk", json=body) as response:
            assert response.status == 201
        for kind, signed in (("mp4", True), ("webm", False)):
            async with http.post(f"/api/recordings?feed=desk&format={kind}") as response:
                view = await ended(http, (await response.json())["recording"])
            assert (view["state"], view["signed"], view["error"]) == ("finished", signed, None)
            if signed:
                assert verdict(tmp_path / "films" / view["file"]) == "Valid"
