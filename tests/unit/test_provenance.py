"""C2PA manifests: what a reader of the library's own finds in signed films, and that no film is lost over a signature.

Tests that sign need the extra `c2pa` and are skipped without it.
"""

from __future__ import annotations

import asyncio
import sys
from importlib import metadata, util

import av
import numpy as np
import pytest
from cryptography.x509 import ExtendedKeyUsageOID
from typer.testing import CliRunner

from streamer.broadcast.recorder import Recorder, RecordingOrder
from streamer.cli import app
from streamer.config import C2paConfig, Config, check
from streamer.errors import ConfigError, NotSigned
from streamer.film import FILM, RECORDINGS, recording
from streamer.media import FRAME_SAMPLES, Picture, PictureKind, Stamps
from streamer.pcm import wav_of
from streamer.provenance import FilmSigner, signer_of

pytestmark = pytest.mark.unit
signs = pytest.mark.skipif(util.find_spec("c2pa") is None, reason="needs the extra c2pa")

SIZE = (128, 96)
COMPOSITE = "http://cv.iptc.org/newscodes/digitalsourcetype/compositeWithTrainedAlgorithmicMedia"


def film(path, kind=FILM, frames=50):
    rng = np.random.default_rng(1)
    with recording(path, SIZE, kind) as output:
        for index in range(frames):
            planes = rng.integers(0, 256, (SIZE[1] * 3 // 2, SIZE[0]), dtype=np.uint8)
            output.add(index, planes, rng.integers(-2000, 2000, FRAME_SAMPLES).astype(np.int16))
    return path


def played(path):
    """Every picture and sound of a film."""
    found = []
    for kind in ("video", "audio"):
        with av.open(str(path)) as container:
            found += [frame.to_ndarray().tobytes() for frame in container.decode(**{kind: 0})]
    return found


def read(path, authority=None):
    """The library's verdict, and the manifest. Trusts nobody but an authority that is given."""
    import c2pa

    settings = {"trust": {"trust_anchors": authority}} if authority else {"verify": {"verify_trust": False}}
    with c2pa.Context.from_dict(settings) as context, c2pa.Reader(path, context=context) as reader:
        return reader.get_validation_state(), reader.get_active_manifest()


@signs
@pytest.mark.parametrize("kind", [FILM, RECORDINGS["mp4"]], ids=["film", "recording"])
def test_signed_film_says_what_made_it_and_plays_as_before(tmp_path, papers, kind):
    certificate, key, authority = papers(tmp_path / "papers")
    path = film(tmp_path / "evening.mp4", kind)
    before = played(path)
    FilmSigner(certificate, key).sign(path)
    assert read(path)[0] == "Valid"
    verdict, manifest = read(path, authority)
    assert verdict == "Trusted"
    version = metadata.version("liveanchor")
    assert (manifest["claim_generator_info"][0]["name"], manifest["title"]) == ("liveanchor", "evening.mp4")
    assert manifest["signature_info"]["issuer"] == "A Newsroom"
    (actions,) = (a["data"]["actions"] for a in manifest["assertions"] if a["label"] == "c2pa.actions.v2")
    assert actions == [
        {
            "action": "c2pa.created",
            "softwareAgent": {"name": "liveanchor", "version": version},
            "digitalSourceType": COMPOSITE,
        }
    ]
    assert played(path) == before
    assert sorted(p.name for p in tmp_path.iterdir()) == ["evening.mp4", "papers"]


@signs
def test_one_changed_byte_is_found(tmp_path, papers):
    certificate, key, _ = papers(tmp_path)
    path = film(tmp_path / "evening.mp4")
    FilmSigner(certificate, key).sign(path)
    content = path.read_bytes()
    for place in (len(content) // 3, len(content) // 2, len(content) - 100):
        changed = bytearray(content)
        changed[place] ^= 1
        path.write_bytes(changed)
        assert read(path)[0] == "Invalid"


@signs
@pytest.mark.parametrize("kind", ["P-256", "P-384", "Ed25519", "RSA"])
def test_keys_of_all_usual_kinds_sign(tmp_path, papers, kind):
    certificate, key, authority = papers(tmp_path, kind)
    path = film(tmp_path / "evening.mp4", frames=5)
    FilmSigner(certificate, key).sign(path)
    assert read(path, authority)[0] == "Trusted"


@signs
def test_paper_that_will_not_do_is_refused_before_anything_is_filmed(tmp_path, papers):
    good, key, _ = papers(tmp_path / "good")
    late, late_key, _ = papers(tmp_path / "late", days=-1)
    web, web_key, _ = papers(tmp_path / "web", purpose=ExtendedKeyUsageOID.ANY_EXTENDED_KEY_USAGE)
    (tmp_path / "words.pem").write_text("not a key")
    for certificate, secret in (
        (late, late_key), (web, web_key), (good, late_key), (good, tmp_path / "words.pem"), (good, tmp_path / "none"),
        (tmp_path / "words.pem", key), (tmp_path / "none", key),
    ):  # fmt: skip
        with pytest.raises(ConfigError) as caught:
            FilmSigner(certificate, secret)
        assert "\n" not in str(caught.value)


@signs
def test_film_that_cannot_be_signed_stays_as_it_was(tmp_path, papers):
    certificate, key, _ = papers(tmp_path / "papers")
    signer = FilmSigner(certificate, key)
    path = tmp_path / "broken.mp4"
    path.write_bytes(b"not a film at all" * 100)
    with pytest.raises(NotSigned, match=r"broken\.mp4 is whole, but not signed"):
        signer.sign(path)
    assert path.read_bytes() == b"not a film at all" * 100
    with pytest.raises(NotSigned):
        signer.sign(tmp_path / "none.mp4")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["broken.mp4", "papers"]


async def recorded(path, signer):
    recorder = Recorder(RecordingOrder("desk", str(path), RECORDINGS["mp4"], SIZE, signer=signer))
    running = asyncio.create_task(recorder.run())  # noqa: TID251 - a test
    silence = np.zeros(FRAME_SAMPLES, np.int16)
    for index in range(30):
        planes = np.full((SIZE[1] * 3 // 2, SIZE[0]), 40 + index, np.uint8)
        recorder.take(Picture(index, planes, silence, PictureKind.IDLE, 0, Stamps()))
    recorder.stop()
    await running
    return recorder


@signs
async def test_recording_is_signed_when_it_has_ended_and_kept_where_it_cannot_be(tmp_path, papers):
    certificate, key, _ = papers(tmp_path / "papers")
    signer = FilmSigner(certificate, key)
    recorder = await recorded(tmp_path / "first.mp4", signer)
    assert (recorder.state, recorder.signed, recorder.error) == ("finished", True, None)
    assert read(tmp_path / "first.mp4")[0] == "Valid"
    expired, _, _ = papers(tmp_path / "late", days=-1)
    signer._certificate = expired.read_bytes()  # it ran out while the server ran
    recorder = await recorded(tmp_path / "second.mp4", signer)
    assert (recorder.state, recorder.signed) == ("finished", False)
    assert "whole, but not signed" in recorder.error
    with av.open(str(tmp_path / "second.mp4")) as container:
        assert sum(1 for _ in container.decode(video=0)) == 30


@signs
def test_render_command_signs_its_film(tmp_path, papers):
    certificate, key, authority = papers(tmp_path)
    t = np.arange(24_000) / 48_000
    (tmp_path / "hum.wav").write_bytes(wav_of((8000 * np.sin(2 * np.pi * 150 * t)).astype("<i2")))
    from avatars.bundled import bundled_portraits

    portrait, out = bundled_portraits()[0].path, tmp_path / "hum.mp4"
    command = ["render", portrait, tmp_path / "hum.wav", out, "--c2pa", certificate, key]
    run = CliRunner().invoke(app, [str(part) for part in command])
    assert run.exit_code == 0, run.output
    assert read(out, authority)[0] == "Trusted"


def test_without_the_extra_the_remedy_is_named_at_once(tmp_path, papers, monkeypatch):
    monkeypatch.setitem(sys.modules, "c2pa", None)
    certificate, key, _ = papers(tmp_path)
    with pytest.raises(ConfigError, match=r"pip install 'liveanchor\[c2pa\]'"):
        signer_of(certificate, key)


def test_half_of_the_papers_is_a_wrong_setting_and_none_is_no_signature():
    with pytest.raises(ConfigError, match="a certificate and a key"):
        check(Config(c2pa=C2paConfig(certificate="chain.pem")))
    assert signer_of(None, None) is None


def test_webm_cannot_be_signed_and_says_so(tmp_path):
    command = ["render", "ruby", "-", str(tmp_path / "out.webm"), "--c2pa", "chain.pem", "key.pem"]
    run = CliRunner().invoke(app, command)
    assert isinstance(run.exception, ConfigError)
    assert "only .mp4 files" in str(run.exception)
