"""A render goes from picture and sound to a file that plays, goes on after an interruption, and reports its faults."""

from __future__ import annotations

import json
import re
from pathlib import Path

import av
import cv2
import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="LivePortrait needs the [liveportrait] extra")
pytest.importorskip("transformers", reason="JoyVASA needs the [liveportrait] extra")

from typer.testing import CliRunner  # noqa: E402

from avatars.bundled import bundled_portraits  # noqa: E402
from avatars.errors import FaceNotFound, PortraitRejected  # noqa: E402
from engines.errors import EngineOutput, EngineUnavailable  # noqa: E402
from streamer.cli import app  # noqa: E402
from streamer.clock import ManualClock  # noqa: E402
from streamer.commands.render import Wishes  # noqa: E402
from streamer.errors import ConfigError  # noqa: E402
from streamer.graphics.badge import Badge  # noqa: E402
from streamer.media import FRAME_SAMPLES  # noqa: E402
from streamer.render import liveportrait  # noqa: E402
from streamer.render.encode import encoding  # noqa: E402
from streamer.render.job import Order, RenderJob  # noqa: E402
from streamer.render.sound import read_sound  # noqa: E402

pytestmark = pytest.mark.contract
DATA = Path(__file__).parents[1] / "data"
RUBY = bundled_portraits()[0].path


@pytest.fixture(scope="module")
def speech(tmp_path_factory):
    """0.72 s of somebody reading: 18 frames, two windows of the reduced generator."""
    import soundfile

    sound = read_sound(DATA / "librivox_austen_0890.flac")[48_000 : 48_000 + 18 * FRAME_SAMPLES]
    path = tmp_path_factory.mktemp("sound") / "speech.wav"
    soundfile.write(path, sound, 48_000)
    return path


@pytest.fixture(scope="module")
def small_portrait(tmp_path_factory):
    """A bundled portrait at a size that encodes quickly."""
    picture = cv2.resize(cv2.imread(str(RUBY)), (256, 256), interpolation=cv2.INTER_AREA)
    path = tmp_path_factory.mktemp("portrait") / "ruby.png"
    cv2.imwrite(str(path), picture)
    return path


def wishes(portrait, audio, **more):
    rest = {"driving": None, "idle_s": None, "tier": "full", "models": None, "seed": 0, "inject": (), "device": "cpu"}
    return Wishes(portrait=portrait, audio=audio, seeded=True, reduced=True, **(rest | more))


def job_of(wish, out, listen=lambda progress: None, **order):
    take, sound = liveportrait.take_of(wish)
    files = [p for p in (wish.portrait, wish.audio, wish.driving) if p]
    about = {"tier": wish.tier, "inject": list(wish.inject), "seed": wish.seed}
    return take, RenderJob(take, Order(out, sound, about, files, **order), ManualClock(), listen)


def pictures(path):
    with av.open(str(path)) as container:
        return [frame.to_ndarray(format="rgb24") for frame in container.decode(video=0)]


@pytest.mark.parametrize("suffix", [".mp4", pytest.param(".webm", marks=pytest.mark.long)])
def test_the_whole_chain_gives_a_file_that_plays(tmp_path, small_portrait, speech, suffix):
    seen = []
    out = tmp_path / f"talk{suffix}"
    _, job = job_of(wishes(small_portrait, speech, tier="preview"), out, seen.append)
    report = job.run()
    assert report["inspection"]["faults"] == []
    assert report["frames"] == report["inspection"]["frames"] == 18
    assert report["counts"]["rendered"] == report["keyframes"] < 18
    assert report["counts"]["interpolated"] == 18 - report["keyframes"]
    assert report == json.loads((tmp_path / f"talk{suffix}.json").read_text())
    assert [p.stage for p in seen if p.done == p.total] == ["motion", "keyframes", "encode", "inspect"]
    assert not (tmp_path / f"talk{suffix}.work").exists()
    with av.open(str(out)) as container:
        assert {s.type for s in container.streams} == {"video", "audio"}
        heard = np.concatenate([f.to_ndarray().ravel() for f in container.decode(audio=0)]).astype(np.float64)
    assert heard.std() > 0
    shown = pictures(out)
    assert shown[0].shape == (256, 256, 3)
    corner = np.stack([p[-16:, :16] for p in shown]).astype(int)
    assert np.abs(corner - corner[0]).max() <= 24, "what is not face stays, coding apart"


def test_faults_are_retried_once_then_held_and_reported(tmp_path, small_portrait, speech):
    """NaN frames, pose jumps and a dead denoiser, each once and twice: once is repaired, twice is held."""
    inject = ("nan@6", "nan@11x2", "jump@3", "jump@14x2", "denoiser@0")
    take, job = job_of(wishes(small_portrait, speech, inject=inject), tmp_path / "talk.mp4", keep_work=True)
    report = job.run()
    assert report["counts"] == {
        "rendered": 17, "retried": 1, "held": 1, "interpolated": 0, "motion_retried": 1, "motion_held": 1,
        "windows_retried": 1, "windows_held": 0,
    }  # fmt: skip
    assert report["findings_by_reason"] == {"head_jump": 2, "not_finite": 3}
    assert [f["frame"] for f in report["findings"]] == [3, 14, 6, 11, 11]
    assert report["inspection"]["faults"] == []
    assert report["inspection"]["frames"] == 18
    assert np.array_equal(take.keypoints[14], take.keypoints[13])
    keys = tmp_path / "talk.mp4.work" / "keys"
    assert (keys / "000011.png").read_bytes() == (keys / "000010.png").read_bytes()
    assert (keys / "000012.png").read_bytes() != (keys / "000010.png").read_bytes()


def test_a_denoiser_that_stays_dead_leaves_a_still_face_and_says_so(tmp_path, small_portrait, speech):
    _, job = job_of(wishes(small_portrait, speech, inject=("denoiser@0x2",)), tmp_path / "talk.mp4")
    report = job.run()
    assert report["counts"]["windows_held"] == 1
    assert report["findings_by_reason"] == {"still_lips": 1}
    assert report["inspection"]["faults"] == []


def test_a_first_frame_that_cannot_be_rendered_ends_the_render_without_a_file(tmp_path, small_portrait, speech):
    _, job = job_of(wishes(small_portrait, speech, inject=("nan@0x2",)), tmp_path / "talk.mp4")
    with pytest.raises(EngineOutput, match="frame 0"):
        job.run()
    assert not (tmp_path / "talk.mp4").exists()


class Interrupted(Exception):
    pass


def test_an_interrupted_render_goes_on_and_gives_the_same_pictures(tmp_path, small_portrait):
    wish = wishes(small_portrait, None, idle_s=0.36, inject=("nan@3x2",))
    _, whole = job_of(wish, tmp_path / "whole.mp4")
    expected = whole.run()

    def stop(progress):
        if progress.stage == "keyframes" and progress.done == 4:
            raise Interrupted

    _, job = job_of(wish, tmp_path / "talk.mp4", stop)
    with pytest.raises(Interrupted):
        job.run()
    assert not (tmp_path / "talk.mp4").exists()
    seen = []
    take, again = job_of(wish, tmp_path / "talk.mp4", seen.append)
    report = again.run()
    assert report["resumed"] is True
    assert next(p for p in seen if p.stage == "keyframes").done == 4, "four keyframes were done"
    assert take.counts.rendered == report["keyframes"] - 4
    assert "motion" not in {p.stage for p in seen}
    assert report["counts"] == expected["counts"]
    assert report["findings"] == expected["findings"]
    for a, b in zip(pictures(tmp_path / "whole.mp4"), pictures(tmp_path / "talk.mp4"), strict=True):
        assert np.array_equal(a, b)


def test_another_setting_begins_anew(tmp_path, small_portrait):
    def stop(progress):
        if progress.stage == "keyframes" and progress.done == 2:
            raise Interrupted

    _, job = job_of(wishes(small_portrait, None, idle_s=0.2), tmp_path / "talk.mp4", stop)
    with pytest.raises(Interrupted):
        job.run()
    _, badged = job_of(
        wishes(small_portrait, None, idle_s=0.2), tmp_path / "talk.mp4", keep_work=True, badge=Badge("AI")
    )
    assert badged.run()["resumed"] is True, "a badge lies over pictures that stay as they are"
    _, other = job_of(wishes(small_portrait, None, idle_s=0.2, seed=1), tmp_path / "talk.mp4")
    assert other.run()["resumed"] is False


def test_a_face_takes_over_the_motion_of_another(tmp_path, small_portrait):
    """A portrait that drifts sideways drives one that stands still."""
    picture = cv2.cvtColor(cv2.imread(str(small_portrait)), cv2.COLOR_BGR2RGB)
    clip = tmp_path / "clip.mp4"
    with encoding(clip, 256, 256) as encoder:
        for i in range(8):
            move = np.array([[1, 0, 2.0 * i], [0, 1, 0]], np.float32)
            moved = cv2.warpAffine(picture, move, (256, 256), borderMode=cv2.BORDER_REPLICATE)
            encoder.add(moved, np.zeros(FRAME_SAMPLES, np.int16))
    take, job = job_of(wishes(small_portrait, None, driving=clip), tmp_path / "out.mp4")
    report = job.run()
    assert report["frames"] == 8
    assert report["inspection"]["faults"] == []
    assert np.ptp(take.keypoints, axis=0).max() > 1e-4


def test_a_driving_clip_without_a_face_is_refused(tmp_path, small_portrait):
    clip = tmp_path / "noise.mp4"
    noise = np.random.default_rng(0).integers(0, 255, (64, 64, 3), np.uint8)
    with encoding(clip, 64, 64) as encoder:
        encoder.add(noise, np.zeros(FRAME_SAMPLES, np.int16))
    _, job = job_of(wishes(small_portrait, None, driving=clip), tmp_path / "out.mp4")
    with pytest.raises(FaceNotFound, match="driving clip"):
        job.run()


def test_an_idle_face_moves_blinks_and_has_no_seam(tmp_path, small_portrait):
    take, job = job_of(wishes(small_portrait, None, idle_s=1.6, tier="preview"), tmp_path / "idle.mp4")
    assert job.run()["inspection"]["faults"] == []
    steps = np.linalg.norm(np.diff(take.keypoints, axis=0), axis=2).max(1)
    seam = float(np.linalg.norm(take.keypoints[0] - take.keypoints[-1], axis=1).max())
    assert steps.max() > 0
    assert seam <= np.percentile(steps, 95) + 1e-6


def command(*arguments):
    engine = () if "--engine" in arguments else ("--engine", "liveportrait")
    return CliRunner().invoke(app, ["render", *map(str, arguments), *engine], catch_exceptions=True)


def test_the_command_renders_and_prints_its_report(tmp_path, small_portrait, speech):
    arguments = ("--seeded", "--reduced", "--tier", "preview", "--json", "--badge", "AI")
    done = command(small_portrait, speech, tmp_path / "a.webm", *arguments)
    assert done.exit_code == 0, done.output
    report = json.loads(done.stdout)
    assert (report["inspection"]["frames"], report["badge"]) == (18, "AI")
    x1, y1, x2, y2 = Badge("AI").rect((256, 256))
    corners = [picture[y1:y2, x1:x2] for picture in pictures(tmp_path / "a.webm")]
    assert all(corner.max() > 170 and np.median(corner) < 90 for corner in corners), "the badge is in every picture"


@pytest.mark.parametrize(
    ("arguments", "error", "says"),
    [
        (("a.avi", "--seeded", "--reduced"), ConfigError, r"\.mp4"),
        (("a.mp4", "--reduced"), ConfigError, "--seeded"),
        (("a.mp4",), EngineUnavailable, "models pull joyvasa"),
        (("a.mp4", "--models", "nowhere"), EngineUnavailable, "models pull"),
        (("a.mp4", "--engine", "unknown"), ConfigError, "liveportrait"),
        (("a.mp4", "--tier", "best"), ConfigError, "preview"),
        (("a.mp4", "--seeded", "--reduced", "--inject", "fire@2"), ConfigError, "fire@2"),
    ],
)
def test_wrong_wishes_get_one_line_with_the_remedy(tmp_path, small_portrait, speech, arguments, error, says):
    done = command(small_portrait, speech, tmp_path / arguments[0], *arguments[1:])
    assert isinstance(done.exception, error)
    assert re.search(says, str(done.exception))
    assert not list(tmp_path.iterdir())


def test_a_picture_without_a_face_is_refused(tmp_path, speech):
    cv2.imwrite(str(tmp_path / "wall.png"), np.full((128, 128, 3), 128, np.uint8))
    done = command(tmp_path / "wall.png", speech, tmp_path / "a.mp4", "--seeded", "--reduced")
    assert isinstance(done.exception, FaceNotFound)


# ---- what can go wrong around a render ----


def half_done(wish, out, keys=4):
    """A render that was killed after so many keyframes."""

    def stop(progress):
        if progress.stage == "keyframes" and progress.done == keys:
            raise Interrupted

    _, job = job_of(wish, out, stop)
    with pytest.raises(Interrupted):
        job.run()
    return out.with_name(out.name + ".work")


def cut_short(path):
    path.write_bytes(path.read_bytes()[:-40])


DAMAGES = {
    "a keyframe is cut short": lambda work: cut_short(work / "keys" / "000002.png"),
    "the plan is cut short": lambda work: cut_short(work / "plan.npz"),
    "a keyframe is empty": lambda work: (work / "keys" / "000001.png").write_bytes(b""),
    "the last keyframe was not counted": lambda work: (work / "account.json").write_text(
        json.dumps(json.loads((work / "account.json").read_text()) | {"last_key": 2})
    ),
    "the account is no account": lambda work: (work / "account.json").write_text("{"),
}


@pytest.fixture(scope="module")
def whole(tmp_path_factory, small_portrait):
    """The pictures of a short loop that nothing disturbed."""
    path = tmp_path_factory.mktemp("whole") / "whole.mp4"
    job_of(wishes(small_portrait, None, idle_s=0.24), path)[1].run()
    return pictures(path)


@pytest.mark.parametrize(
    "damage", [*list(DAMAGES)[:2], *(pytest.param(d, marks=pytest.mark.long) for d in list(DAMAGES)[2:])]
)
def test_damaged_work_is_done_again_and_the_pictures_are_the_same(tmp_path, small_portrait, whole, damage):
    wish = wishes(small_portrait, None, idle_s=0.24)
    DAMAGES[damage](half_done(wish, tmp_path / "talk.mp4"))
    _, again = job_of(wish, tmp_path / "talk.mp4")
    report = again.run()
    assert report["inspection"]["faults"] == []
    for a, b in zip(whole, pictures(tmp_path / "talk.mp4"), strict=True):
        assert np.array_equal(a, b)


def test_a_full_disk_ends_the_render_in_one_line_and_it_goes_on_later(tmp_path, small_portrait):
    """Files may grow to no more than six thousand bytes: keyframes fit, the film does not."""
    resource = pytest.importorskip("resource")
    wish, out = wishes(small_portrait, None, idle_s=0.24), tmp_path / "talk.mp4"
    _, job = job_of(wish, out)
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (6000, before[1]))
    try:
        with pytest.raises(ConfigError, match="cannot be written"):
            job.run()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert not out.exists()
    _, again = job_of(wish, out)
    report = again.run()
    assert report["resumed"] is True
    assert report["inspection"]["frames"] == report["frames"]


@pytest.mark.parametrize("out", ["folder", "file/talk.mp4", "in.mp4"])
def test_a_place_that_takes_no_film_is_refused_before_anything_is_rendered(tmp_path, small_portrait, out):
    (tmp_path / "folder.mp4").mkdir()
    (tmp_path / "file").write_text("a file")
    clip = tmp_path / "in.mp4"
    with encoding(clip, 64, 64) as encoder:
        encoder.add(np.full((64, 64, 3), 90, np.uint8), np.zeros(FRAME_SAMPLES, np.int16))
    kept = clip.read_bytes()
    name = "folder.mp4" if out == "folder" else out
    seen = []
    wish = wishes(small_portrait, clip if out == "in.mp4" else None, idle_s=0.2)
    with pytest.raises(ConfigError):
        job_of(wish, tmp_path / name, seen.append)[1].run()
    assert seen == []
    assert clip.read_bytes() == kept


@pytest.mark.parametrize("seconds", ["0", "-1", "nan", "inf", "1e9"])
def test_a_loop_of_no_length_is_refused(tmp_path, small_portrait, seconds):
    done = command(small_portrait, "-", tmp_path / "a.mp4", "--seeded", "--reduced", "--idle", seconds)
    assert isinstance(done.exception, ConfigError)
    assert "--idle" in str(done.exception)


def test_a_picture_of_one_pixel_has_no_face(tmp_path, speech):
    cv2.imwrite(str(tmp_path / "dot.png"), np.full((1, 1, 3), 128, np.uint8))
    done = command(tmp_path / "dot.png", speech, tmp_path / "a.mp4", "--seeded", "--reduced")
    assert isinstance(done.exception, FaceNotFound)


@pytest.mark.parametrize("content", ["#EXTM3U\n#EXTINF:1,\n{}\n", "ffconcat version 1.0\nfile '{}'\n"])
def test_a_playlist_is_not_followed(tmp_path, small_portrait, speech, content):
    """A playlist can name any file or host: it is neither a sound nor a clip."""
    for name in ("list.wav", "list.mp4", "list.m3u8"):
        path = tmp_path / name
        path.write_text(content.format(speech))
        with pytest.raises(ConfigError, match="no sound"):
            read_sound(path)
        with pytest.raises(PortraitRejected, match="not a readable clip"):
            job_of(wishes(small_portrait, None, driving=path), tmp_path / "o.mp4")
