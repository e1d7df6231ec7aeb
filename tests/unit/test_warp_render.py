"""Rendered mouths do what they are told, as a face mesh sees it on the finished picture."""

from __future__ import annotations

from dataclasses import replace

import cv2
import numpy as np
import pytest
import skimage.data

from avatars.blend import blend_rgb
from avatars.bundled import FIRST, bundled_portraits
from avatars.faces import FaceMesh
from avatars.packet import AvatarPacket
from avatars.picture import load_picture
from avatars.precompile import precompile_portrait
from engines.contract import FaceJob
from engines.errors import EngineContract, EngineOutput
from engines.warp.engine import WarpEngine
from engines.warp.face import WarpFace
from engines.warp.shape import MouthShape

pytestmark = pytest.mark.unit

PORTRAITS = bundled_portraits()[:FIRST]
PICTURES = [*(portrait.id for portrait in PORTRAITS), "astronaut"]


@pytest.fixture(scope="module")
def mesh() -> FaceMesh:
    return FaceMesh()


@pytest.fixture(scope="module")
def engine() -> WarpEngine:
    return WarpEngine()


@pytest.fixture(scope="module")
def faces(mesh, engine) -> dict[str, WarpFace]:
    pictures = {p.id: load_picture(p.path) for p in PORTRAITS} | {"astronaut": skimage.data.astronaut()}
    return {name: engine.attach(precompile_portrait(rgb, name, mesh)) for name, rgb in pictures.items()}


def anchor(packet: AvatarPacket, frame: int = 0) -> np.ndarray:
    return np.ascontiguousarray(packet.frames[frame].transpose(1, 2, 0))


def finished(face: WarpFace, patch: np.ndarray, frame: int = 0) -> np.ndarray:
    packet = face.packet
    crop, box = packet.mask_coords[frame], packet.coords[frame]
    return blend_rgb(anchor(packet, frame), patch, packet.masks[frame], crop, box)


def mouth(mesh: FaceMesh, rgb: np.ndarray) -> tuple[float, float]:
    """(lip gap, mouth width), each as a share of the distance between the eyes."""
    points = mesh.find(rgb)[0].points
    eyes = np.linalg.norm(points[33] - points[263])
    return float(np.linalg.norm(points[14] - points[13]) / eyes), float(np.linalg.norm(points[291] - points[61]) / eyes)


def correlation(a, b) -> float:
    return float(np.corrcoef(a, b)[0, 1])


@pytest.mark.parametrize("name", PICTURES)
def test_opening_seen_on_the_picture_follows_the_command(name, faces, mesh):
    told = np.linspace(0, 1, 12)
    seen = [mouth(mesh, finished(faces[name], faces[name].render(MouthShape(open=o, wide=0.2))))[0] for o in told]
    assert correlation(told, seen) >= 0.95
    assert max(seen) > 0.11


@pytest.mark.parametrize("name", PICTURES)
def test_width_seen_on_the_picture_follows_the_command(name, faces, mesh):
    told = np.linspace(-1, 1, 12)
    shapes = [MouthShape(open=0.3, wide=max(0.0, w), round=max(0.0, -w)) for w in told]
    seen = [mouth(mesh, finished(faces[name], faces[name].render(shape)))[1] for shape in shapes]
    assert correlation(told, seen) >= 0.85


@pytest.mark.parametrize("name", PICTURES)
def test_the_mouth_is_shut_at_rest_and_when_pressed(name, faces, mesh):
    shut = [MouthShape(), MouthShape(press=1.0), MouthShape(open=0.9, press=1.0)]
    open_gap = mouth(mesh, finished(faces[name], faces[name].render(MouthShape(open=0.8))))[0]
    for shape in shut:
        assert mouth(mesh, finished(faces[name], faces[name].render(shape)))[0] < 0.35 * open_gap


def test_the_mouth_is_shut_in_silence(faces, engine, mesh):
    samples = np.zeros(engine.spec.window_samples, np.float32)
    for face in faces.values():
        (patch,) = engine.infer([FaceJob(face, 40, 0, 0, samples)])
        change = np.abs(patch.pixels.astype(int) - face.neutral)
        assert change.mean() < 0.2
        assert mouth(mesh, finished(face, patch.pixels))[0] < 0.05


@pytest.mark.parametrize("name", PICTURES[:3])
def test_a_portrait_with_a_shut_mouth_rests_as_it_is(name, faces):
    face = faces[name]
    x1, y1, x2, y2 = face.packet.coords[0]
    still = cv2.resize(anchor(face.packet)[y1:y2, x1:x2], (256, 256), interpolation=cv2.INTER_AREA)
    assert np.abs(face.neutral.astype(int) - still).max() <= 4


@pytest.mark.parametrize("name", PICTURES)
def test_nothing_moves_outside_the_mask_or_where_it_fades_out(name, faces):
    face, packet = faces[name], faces[name].packet
    before = anchor(packet).astype(int)
    x_s, y_s, x_e, y_e = packet.mask_coords[0]
    shows = np.zeros(before.shape[:2], np.float32)
    shows[y_s:y_e, x_s:x_e] = packet.masks[0][0]
    for shape in (MouthShape(open=1.0, wide=1.0), MouthShape(open=1.0, round=1.0), MouthShape(fv=1.0)):
        after = finished(face, face.render(shape)).astype(int)
        assert np.array_equal(after[shows == 0], before[shows == 0])
        rim = (shows > 0) & (shows < 0.3)
        rest = finished(face, face.neutral).astype(int)
        assert np.abs(after - rest)[rim].mean() < 0.6


@pytest.mark.parametrize("shape", [MouthShape(open=0.15), MouthShape(open=0.9), MouthShape(open=0.3, wide=1.0)])
def test_a_portrait_with_an_open_mouth_rests_with_it_shut(shape, faces, mesh, engine):
    speaking = finished(faces["ruby"], faces["ruby"].render(shape))
    face = engine.attach(precompile_portrait(speaking, "speaking", mesh))
    before, after = mouth(mesh, speaking)[0], mouth(mesh, finished(face, face.neutral))[0]
    assert after < 0.45 * before
    assert mouth(mesh, finished(face, face.render(MouthShape(open=1.0))))[0] > 0.13


def test_a_black_and_white_portrait_speaks_in_black_and_white(mesh, engine):
    grey = np.repeat(cv2.cvtColor(skimage.data.astronaut(), cv2.COLOR_RGB2GRAY)[..., None], 3, axis=2)
    face = engine.attach(precompile_portrait(grey, "grey", mesh))
    assert np.ptp(face.render(MouthShape(open=1.0)), axis=2).max() <= 6


def test_a_rolled_head_opens_along_its_own_axis(mesh, engine):
    upright = skimage.data.astronaut()
    turn = cv2.getRotationMatrix2D((224, 120), 30, 1.0)
    rolled = cv2.warpAffine(upright, turn, (512, 512), borderMode=cv2.BORDER_REFLECT)
    face = engine.attach(precompile_portrait(rolled, "rolled", mesh))
    points = mesh.find(finished(face, face.render(MouthShape(open=0.9))))[0].points
    down, gap = points[152] - points[10], points[14] - points[13]
    angle = np.degrees(np.arccos(down @ gap / np.linalg.norm(down) / np.linalg.norm(gap)))
    assert np.linalg.norm(gap) > 5
    assert angle < 20


def clip(faces, frames: int, lost: int | None = None) -> AvatarPacket:
    """A packet whose frames differ: the portrait a little further right in each."""
    still = faces["ruby"].packet
    moved = [np.roll(still.frames[0], 2 * i, axis=2) for i in range(frames)]
    landmarks = np.stack([still.landmarks[0] + np.array([2 * i, 0]) for i in range(frames)]).astype(np.float32)
    if lost is not None:
        landmarks[lost] = np.nan
    x1, y1, x2, y2 = still.coords[0]
    geometry = still.geometry[0]
    return AvatarPacket(
        avatar_id="clip",
        frames=np.stack(moved),
        latents=None,
        masks=still.masks[:1] * frames,
        geometry=tuple(geometry._replace(x_s=geometry.x_s + 2 * i, x_e=geometry.x_e + 2 * i) for i in range(frames)),
        coords=tuple((x1 + 2 * i, y1, x2 + 2 * i, y2) for i in range(frames)),
        landmarks=landmarks,
    )


def test_each_frame_of_a_clip_speaks_with_its_own_face(faces, engine):
    face = engine.attach(clip(faces, 3))
    shape = MouthShape(open=0.6)
    first, second = face.render(shape, 0), face.render(shape, 1)
    # frames, box and mesh move together, so the patches agree
    assert np.abs(first.astype(int) - second).mean() < 0.5
    assert np.array_equal(face.render(shape, 4), second)


def test_a_frame_without_a_face_passes_as_it_is(faces, engine):
    packet = clip(faces, 3, lost=1)
    face = engine.attach(packet)
    x1, y1, x2, y2 = packet.coords[1]
    still = cv2.resize(anchor(packet, 1)[y1:y2, x1:x2], (256, 256), interpolation=cv2.INTER_AREA)
    assert np.array_equal(face.render(MouthShape(open=1.0), 1), still)
    assert not np.array_equal(face.render(MouthShape(open=1.0), 0), still)


def test_a_long_clip_keeps_a_bounded_number_of_rigs(faces, engine, monkeypatch):
    monkeypatch.setattr("engines.warp.face.RIG_LIMIT", 2)
    face = engine.attach(clip(faces, 4))
    patches = [face.render(MouthShape(open=0.5), index) for index in range(4)]
    assert face.rigs_kept == 2
    assert np.array_equal(face.render(MouthShape(open=0.5), 0), patches[0])


def test_any_mesh_and_box_that_a_packet_allows_is_rendered_or_refused(faces, engine):
    still = faces["ruby"].packet
    rng = np.random.default_rng(11)
    refused = 0
    for case in range(40):
        landmarks, box = np.array(still.landmarks[0]), still.coords[0]
        if case % 4 == 0:
            landmarks += rng.normal(0, rng.uniform(1, 80), landmarks.shape)
        elif case % 4 == 1:
            landmarks = landmarks * rng.uniform(0.01, 2) + rng.normal(0, 150, 2)
        elif case % 4 == 2:
            x, y = rng.integers(-60, 700, 2).tolist()
            box = (x, y, x + int(rng.integers(2, 400)), y + int(rng.integers(2, 400)))
        else:
            landmarks[:] = 300
        packet = replace(
            still, landmarks=np.broadcast_to(landmarks.astype(np.float32), (25, 468, 2)), coords=(box,) * 25
        )
        try:
            face = engine.attach(packet)
        except EngineContract:
            refused += 1
            continue
        assert face.render(MouthShape(open=0.8, round=0.4), 3, 0.5, -0.5).shape == (256, 256, 3)
    assert 10 <= refused <= 35


def test_a_face_box_that_hangs_over_the_edge_is_filled_from_the_edge(faces, engine):
    still = faces["ruby"].packet
    x1, y1, x2, y2 = still.coords[0]
    cut = x1 + (x2 - x1) // 12
    shifted = np.array(still.landmarks[0]) - (cut, 0)
    packet = replace(
        still,
        frames=np.stack([still.frames[0][:, :, cut:]] * 25),
        landmarks=np.broadcast_to(shifted.astype(np.float32), (25, 468, 2)),
        coords=((x1 - cut, y1, x2 - cut, y2),) * 25,
        geometry=tuple(g._replace(x_s=0, x_e=g.crop_width_px - (cut - g.x_s)) for g in still.geometry),
        masks=tuple(mask[:, :, cut - g.x_s :] for mask, g in zip(still.masks, still.geometry, strict=True)),
    )
    whole, hanging = faces["ruby"].render(MouthShape(open=0.6)), engine.attach(packet).render(MouthShape(open=0.6))
    assert np.abs(whole.astype(int) - hanging)[:, 64:].mean() < 2


def test_a_shape_that_is_not_finite_is_refused(faces):
    with pytest.raises(EngineOutput):
        faces["ruby"].render(MouthShape(open=float("nan")))


def test_larger_patches_show_the_same_mouth(faces):
    face = WarpEngine(mouth_px=384).attach(faces["ruby"].packet)
    shape = MouthShape(open=0.7)
    small = cv2.resize(face.render(shape), (256, 256), interpolation=cv2.INTER_AREA)
    assert np.abs(small.astype(int) - faces["ruby"].render(shape)).mean() < 1.5
