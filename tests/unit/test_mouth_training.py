"""Training the mouth network: what torch learns is what numpy says, and spoilt sound stays in step with its labels."""

from pathlib import Path

import numpy as np
import pytest

from engines.contract import ANALYSIS_HZ
from engines.warp import augment
from engines.warp.corpus import Utterance
from engines.warp.disturbance import DISTURBANCES, disturbance
from engines.warp.phones import Phone
from engines.warp.score import follow, load_clip, pearson
from engines.warp.speech import MouthNet, log_mel

torch = pytest.importorskip("torch")
from engines.warp import training  # noqa: E402 - only where torch is

pytestmark = pytest.mark.unit

DATA = Path(__file__).parents[1] / "data"


@pytest.fixture(scope="module")
def clip() -> Utterance:
    return load_clip(DATA / "librivox_austen_0930.flac", DATA / "librivox_austen_0930.phone.json")


def hums(seed: int) -> Utterance:
    """Half a second of nothing, half a second of a hum called 'aa', and so on."""
    draw = np.random.default_rng(seed)
    time_s = np.arange(2 * ANALYSIS_HZ) / ANALYSIS_HZ
    sound = sum(np.sin(2 * np.pi * 150 * k * time_s) / k for k in range(1, 20)) * (time_s % 1.0 > 0.5) * 0.2
    phones = tuple(Phone(i / 2, (i + 1) / 2, "aa" if i % 2 else "pau") for i in range(4))
    return Utterance((sound + 1e-4 * draw.standard_normal(len(sound))).astype(np.float32), phones, f"hum {seed}")


def test_a_short_training_learns_and_ships_what_it_learned(tmp_path: Path) -> None:
    said: list[str] = []
    recipe = training.Recipe(
        seed=1, channels=16, dilations=(1, 2), takes=2, non_speech_share=0.1, steps=50, batch=8, crop_rows=60
    )
    out = tmp_path / "net.safetensors"
    record = training.train(out, recipe, said.append, [hums(i) for i in range(4)])

    net = MouthNet.read(out.read_bytes())
    shapes, _ = follow(net, hums(99).samples)
    assert record["parameters"] < 10_000
    assert out.with_suffix(".json").exists()
    assert said
    assert shapes[60:90, 0].mean() > shapes[10:40, 0].mean() + 0.2


def test_numpy_says_what_torch_says(tmp_path: Path, clip: Utterance) -> None:
    torch.manual_seed(3)
    recipe = training.Recipe()
    network = training.Network(recipe)
    network.mean.data = torch.full((40,), -4.0)
    network.scale.data = torch.full((40,), 0.3)
    out = tmp_path / "net.safetensors"
    training.save(network, recipe, np.ones(6, np.float32), np.zeros(6, np.float32), out)
    net = MouthNet.read(out.read_bytes())

    with torch.no_grad():
        window = clip.samples[4000 : 4000 + net.window_samples]
        logits, _ = network(torch.from_numpy(log_mel(window))[None])
    expected = torch.sigmoid(logits)[0].numpy()
    assert expected.shape == (3, 6)
    np.testing.assert_allclose(net.shapes(window[None])[0], np.array([0.25, 0.5, 0.25]) @ expected, atol=2e-3)


@pytest.mark.parametrize("codec", augment.CODECS)
def test_codecs_keep_the_sound_in_step(codec: str, clip: Utterance) -> None:
    heard = augment.through_codec(clip.samples, codec, np.random.default_rng(0))

    assert heard.shape == clip.samples.shape
    assert pearson(heard, clip.samples) > 0.9


@pytest.mark.parametrize("spoil", [augment.room, augment.equalise, augment.breathy, augment.swelling])
def test_spoiling_keeps_length_and_envelope(spoil: object, clip: Utterance) -> None:
    def envelope(sound: np.ndarray) -> np.ndarray:
        return np.sqrt(np.mean(sound[: len(sound) // 320 * 320].reshape(-1, 320) ** 2, axis=1))

    heard = spoil(clip.samples, np.random.default_rng(2))

    assert heard.dtype == np.float32
    assert heard.shape == clip.samples.shape
    assert np.isfinite(heard).all()
    assert pearson(envelope(heard), envelope(clip.samples)) > 0.7


@pytest.mark.parametrize("kind", augment.NON_SPEECH)
def test_sound_that_is_not_speech_has_the_length_and_level_asked_for(kind: str) -> None:
    sound = augment.non_speech(kind, 30_000, np.random.default_rng(5))

    assert sound.shape == (30_000,)
    assert np.isfinite(sound).all()
    assert 0.2 < augment.loud_rms(sound) < 5.0


@pytest.mark.parametrize("kind", DISTURBANCES)
def test_disturbances_of_the_table_are_the_same_each_time(kind: str, clip: Utterance) -> None:
    one = disturbance(kind, 2.0, [clip.samples], seed=4)

    np.testing.assert_array_equal(one, disturbance(kind, 2.0, [clip.samples], seed=4))
    assert np.sqrt(np.mean(one**2)) == pytest.approx(1.0, abs=0.01)


def test_noise_lies_as_far_below_the_speech_as_asked(clip: Utterance) -> None:
    noise = augment.coloured_noise(len(clip.samples), 1.0, np.random.default_rng(0))
    spoilt = augment.with_noise(clip.samples, noise, 10.0)

    level = augment.loud_rms(clip.samples) / np.sqrt(np.mean((spoilt - clip.samples) ** 2))
    assert 20 * np.log10(level) == pytest.approx(10.0, abs=0.2)


def test_a_take_keeps_labels_and_sound_in_step() -> None:
    draw = np.random.default_rng(1)
    recipe = training.Recipe()
    for i in range(6):
        mel, shapes, visemes = training.spoilt_take(hums(i), [hums(50), hums(51)], recipe, draw)
        assert len(mel) == len(shapes) == len(visemes)
        assert pearson(mel.max(axis=1), shapes[:, 0]) > 0.3
