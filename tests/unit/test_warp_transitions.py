"""Between idle and speech the lips move no more suddenly than inside speech, seen on finished frames."""

from __future__ import annotations

from pathlib import Path

import cv2
import numpy as np
import pytest
import soundfile
import soxr

from avatars.bundled import bundled_portraits
from avatars.faces import FaceMesh
from avatars.picture import load_picture
from avatars.precompile import precompile_portrait
from engines.warp.engine import WarpEngine
from engines.warp.mesh import LIPS
from streamer.media import SOUND_HZ, PictureKind
from streamer.talk import Speaker, pictures

pytestmark = pytest.mark.unit

SPEECH = Path(__file__).parents[1] / "data" / "flite_rms_evening.flac"


def test_the_switch_between_idle_and_speech_is_no_jump():
    samples, rate_hz = soundfile.read(SPEECH, dtype="float32")
    spoken = soxr.resample(samples[: int(2.2 * rate_hz)], rate_hz, SOUND_HZ)
    pause = np.zeros(SOUND_HZ * 3 // 5, np.float32)
    pcm48 = np.rint(np.concatenate([pause, spoken, pause, pause]) * 24_000).astype(np.int16)
    mesh, portrait = FaceMesh(), bundled_portraits()[0]
    packet = precompile_portrait(load_picture(portrait.path, max_side_px=512), portrait.id, mesh)
    faces, kinds = [], []
    for picture in pictures(Speaker.of(WarpEngine(), packet, 512), pcm48):
        rgb = cv2.cvtColor(np.ascontiguousarray(picture.planes), cv2.COLOR_YUV2RGB_I420)
        face = mesh.follow(rgb, faces[-1]) if faces else mesh.find(rgb)[0]
        assert face is not None
        faces.append(face)
        kinds.append(picture.kind)
    lips = np.stack([face.points[LIPS] for face in faces])
    steps = np.linalg.norm(np.diff(lips, axis=0), axis=2).max(1)
    voiced = np.array([kind is PictureKind.VOICED for kind in kinds])
    inside = steps[voiced[1:] & voiced[:-1]]
    around = [
        i for i in range(len(steps)) if voiced[max(0, i - 2) : i + 4].any() and not voiced[max(0, i - 2) : i + 4].all()
    ]
    assert voiced.sum() > 30
    assert steps[around].max() <= inside.max()
