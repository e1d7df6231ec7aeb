"""Portraits get a living idle loop: frames of a packet that every other engine speaks over."""

from __future__ import annotations

import cv2
import numpy as np
import pytest
import skimage.data

torch = pytest.importorskip("torch", reason="LivePortrait needs the [liveportrait] extra")

from typer.testing import CliRunner  # noqa: E402

from avatars.faces import FaceMesh  # noqa: E402
from avatars.precompile import Makers  # noqa: E402
from avatars.store import AvatarStore  # noqa: E402
from avatars.workshop import Workshop  # noqa: E402
from engines import catalog  # noqa: E402
from engines.contract import FaceJob  # noqa: E402
from engines.errors import EngineUnavailable  # noqa: E402
from streamer.cli import app, exit_code  # noqa: E402

pytestmark = pytest.mark.contract
torch.set_num_threads(1)


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    path = tmp_path_factory.mktemp("portrait") / "astronaut.png"
    picture = cv2.resize(skimage.data.astronaut(), (320, 320), interpolation=cv2.INTER_AREA)
    cv2.imwrite(str(path), cv2.cvtColor(picture, cv2.COLOR_RGB2BGR))
    return path


class Sure(FaceMesh):
    """Made-up weights make no faces that could be found: this one is sure that they are where the source's was."""

    known = None

    def find(self, rgb):
        self.known = self.known or super().find(rgb)
        return self.known

    def follow(self, rgb, previous):
        return previous


def looped(seconds):
    return catalog.idle_animator("liveportrait", seeded=True, reduced=True, device="cpu", seconds=seconds)


def test_a_portrait_becomes_a_loop_that_moves_inside_its_face_crop_only(tmp_path, source):
    store = AvatarStore(tmp_path)
    seen = []
    workshop = Workshop(store, finder=Sure(), makers=Makers(idle=looped(0.4)))
    made = workshop.make(source, "anna", progress=seen.append)
    assert (made.info["kind"], made.info["cycle_frames"]) == ("idle loop", 10)
    assert made.info["idle"]["name"] == "liveportrait"
    packet = store.open("anna")
    frames = np.asarray(packet.frames)
    assert (np.abs(np.diff(frames.astype(int), axis=0)).max((1, 2, 3)) > 0).all(), "no two frames in a row are the same"
    picture = cv2.cvtColor(cv2.imread(str(source)), cv2.COLOR_BGR2RGB).transpose(2, 0, 1)
    assert np.array_equal(frames[:, :, -40:], np.broadcast_to(picture[:, -40:], frames[:, :, -40:].shape))
    assert seen == sorted(seen)
    assert seen[-1] == 1.0
    store.verify("anna")


def test_a_loop_is_made_again_only_when_it_would_be_another(tmp_path, source):
    store = AvatarStore(tmp_path)
    assert Workshop(store, finder=Sure(), makers=Makers(idle=looped(0.08))).make(source, "anna").fresh
    assert not Workshop(store, finder=Sure(), makers=Makers(idle=looped(0.08))).make(source, "anna").fresh
    assert Workshop(store, finder=Sure(), makers=Makers(idle=looped(0.12))).make(source, "anna").fresh
    still = Workshop(store, finder=Sure()).make(source, "anna")
    assert still.fresh
    assert still.info["kind"] == "portrait"


class Swaying:
    """An animator whose head really moves, sideways, there and back in one loop."""

    name, revision = "swaying", "1"
    shifts = tuple(6 - 6 * np.cos(2 * np.pi * np.arange(24) / 24))

    def animate(self, rgb, finder, source, face):
        return Swung(rgb, source, self.shifts)


class Swung:
    def __init__(self, rgb, name, shifts):
        self.rgb, self.name, self.shifts = rgb, name, shifts
        self.size_px, self.expected_frames = (rgb.shape[1], rgb.shape[0]), len(shifts)

    def __iter__(self):
        for shift in self.shifts:
            move = np.float32([[1, 0, shift], [0, 1, 0]])
            yield cv2.warpAffine(self.rgb, move, self.size_px, borderMode=cv2.BORDER_REPLICATE)


def test_geometry_follows_the_head_and_another_engine_speaks_over_it(tmp_path, source):
    store = AvatarStore(tmp_path)
    Workshop(store, makers=Makers(idle=Swaying())).make(source, "anna")
    packet = store.open("anna")
    assert packet.cycle_frames == len(Swaying.shifts), "a loop is shown forward only"
    middles = np.array([(x1 + x2) / 2 for x1, _, x2, _ in packet.coords])
    assert np.corrcoef(middles, Swaying.shifts)[0, 1] > 0.99
    assert np.ptp(middles) > 9
    engine = catalog.create("warp")
    face = engine.attach(packet)
    voice = np.random.default_rng(0).normal(0, 0.1, engine.spec.window_samples).astype(np.float32)
    patches = engine.infer([FaceJob(face, i, 0, 10**12, voice) for i in (0, 6, 12)])
    assert all(patch.pixels.std() > 5 for patch in patches)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("--idle", "liveportrait"), "models pull liveportrait"),
        (("--idle", "liveportrait", "--device", "nowhere"), "--device cpu"),
        (("--idle", "warp"), "Choose liveportrait"),
    ],
)
def test_a_loop_that_cannot_be_made_is_refused_in_one_line(tmp_path, source, arguments, says):
    folders = ("--avatars", tmp_path / "avatars", "--models", tmp_path / "models")
    done = CliRunner().invoke(app, ["precompile", str(source), *map(str, folders), *arguments])
    assert isinstance(done.exception, EngineUnavailable)
    assert exit_code(done.exception) == 4
    assert says in str(done.exception)
    assert "\n" not in str(done.exception)
    assert not list(tmp_path.iterdir())
