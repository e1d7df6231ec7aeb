"""The mouth network and the phone table: shut in silence, stateless, honest about its look-ahead."""

import json
from importlib import resources
from pathlib import Path

import numpy as np
import pytest

from engines.contract import ANALYSIS_HZ, FRAME_SAMPLES_16K
from engines.errors import EngineContract
from engines.warp import speech
from engines.warp.phones import (
    CHANNELS,
    MOUTHS,
    VISEMES,
    Phone,
    mouth_at,
    mouth_curves,
    openness_curve,
    phone_from_ipa,
    phones_from_psdur,
    read_alignment,
    visemes_at,
)
from engines.warp.score import follow, lag_ms, load_clip, pearson
from engines.warp.speech import MouthNet, log_mel, mel_filters

pytestmark = pytest.mark.unit

DATA = Path(__file__).parents[1] / "data"


@pytest.fixture(scope="module")
def net() -> MouthNet:
    return MouthNet.load()


@pytest.fixture(scope="module")
def clip() -> np.ndarray:
    return load_clip(DATA / "librivox_austen_0930.flac", DATA / "librivox_austen_0930.phone.json").samples


def windows_of(net: MouthNet, samples: np.ndarray, count: int) -> np.ndarray:
    return np.stack([samples[i * 640 : i * 640 + net.window_samples] for i in range(count)])


def test_weights_are_small_and_say_how_they_were_made() -> None:
    folder = resources.files("engines.warp")
    record = json.loads(folder.joinpath("mouth_net.json").read_text())

    assert len(folder.joinpath(speech.WEIGHTS).read_bytes()) <= 400_000
    assert record["recipe"]["without_flite"] == []
    assert record["parameters"] + record["presence"]["parameters"] <= 100_000
    assert not any("rms" in voice for voice in record["corpus"]["voices"])


def test_look_ahead_is_at_most_55_ms(net: MouthNet) -> None:
    assert net.lookahead_samples <= 0.055 * ANALYSIS_HZ
    assert net.window_samples == net.context_samples + FRAME_SAMPLES_16K + net.lookahead_samples


def test_every_declared_sample_counts_and_the_newest_ones_do(net: MouthNet, clip: np.ndarray) -> None:
    window = clip[8000 : 8000 + net.window_samples][None]
    changed = window.copy()
    changed[:, -net.lookahead_samples // 4 :] = 0.5

    assert np.abs(net.shapes(window) - net.shapes(changed)).max() > 1e-3


def test_a_batch_is_the_same_as_one_by_one_in_any_order(net: MouthNet, clip: np.ndarray) -> None:
    windows = windows_of(net, clip, 12)
    together = net.shapes(windows)
    alone = np.concatenate([net.shapes(windows[i : i + 1]) for i in reversed(range(12))])[::-1]

    np.testing.assert_allclose(together, alone, atol=1e-5)


def test_along_a_recording_is_window_by_window(net: MouthNet, clip: np.ndarray) -> None:
    shapes, _ = net.along(clip)

    assert len(shapes) == 1 + (len(clip) - net.window_samples) // 160
    np.testing.assert_allclose(shapes[: 12 * 4 : 4], net.shapes(windows_of(net, clip, 12)), atol=1e-5)
    with pytest.raises(EngineContract):
        net.along(clip[: net.window_samples - 1])


def test_shapes_are_six_numbers_from_0_to_1_and_leave_the_windows_alone(net: MouthNet, clip: np.ndarray) -> None:
    windows = windows_of(net, clip, 20)
    windows.setflags(write=False)
    shapes = net.shapes(windows)

    assert shapes.shape == (20, len(CHANNELS))
    assert shapes.dtype == np.float32
    assert shapes.min() >= 0.0
    assert shapes.max() <= 1.0
    assert net.shapes(windows[:0]).shape == (0, 6)


def test_viseme_probabilities_add_up_to_one(net: MouthNet, clip: np.ndarray) -> None:
    _, odds = net.along(clip)

    assert odds.shape[1] == len(VISEMES)
    np.testing.assert_allclose(odds.sum(axis=1), 1.0, atol=1e-5)


@pytest.mark.parametrize("shape", [(1, 100), (0, 1), (12_000,), (1, 1, 11_000)])
def test_a_window_of_another_length_breaks_the_contract(net: MouthNet, shape: tuple[int, ...]) -> None:
    with pytest.raises(EngineContract):
        net.shapes(np.zeros(shape, np.float32))


def test_silence_shuts_the_mouth_altogether(net: MouthNet) -> None:
    assert net.shapes(np.zeros((1, net.window_samples), np.float32)).max() == 0.0


@pytest.mark.parametrize("level_dbfs", [-90, -75, -60, -50, -40])
@pytest.mark.parametrize("smoothness", [1, 8])
def test_low_noise_keeps_the_mouth_shut(net: MouthNet, level_dbfs: int, smoothness: int) -> None:
    noise = np.random.default_rng(level_dbfs + 100).standard_normal(3 * ANALYSIS_HZ + smoothness - 1)
    noise = np.convolve(noise, np.ones(smoothness) / np.sqrt(smoothness), "valid") * 10 ** (level_dbfs / 20)
    shapes, _ = follow(net, noise.astype(np.float32))

    assert np.quantile(shapes[:, 0], 0.98) < 0.08
    assert shapes[:, 0].max() < 0.2


def test_the_mouth_shuts_between_and_after_speech(net: MouthNet, clip: np.ndarray) -> None:
    pause = np.zeros(ANALYSIS_HZ // 2, np.float32)
    shapes, _ = follow(net, np.concatenate([clip, pause, clip, pause]))
    after_first = len(clip) // 160
    inside = slice(after_first + 10, after_first + 48)

    assert shapes[inside].max() < 0.05
    assert shapes[-38:].max() < 0.05
    assert shapes[:after_first, 0].max() > 0.5


@pytest.mark.parametrize("gain_db", [-34, -20, -10, 6])
def test_level_hardly_matters(net: MouthNet, clip: np.ndarray, gain_db: int) -> None:
    usual, _ = follow(net, clip)
    other, _ = follow(net, np.clip(clip * np.float32(10 ** (gain_db / 20)), -1, 1))

    assert pearson(usual[:, 0], other[:, 0]) > 0.9


def test_moving_the_sound_moves_the_mouth_by_as_much(net: MouthNet, clip: np.ndarray) -> None:
    usual, _ = follow(net, clip)
    later, _ = follow(net, np.concatenate([np.zeros(800, np.float32), clip]))

    np.testing.assert_allclose(later[5 : len(usual)], usual[: len(usual) - 5], atol=1e-4)


def test_a_tone_lights_the_band_it_is_in() -> None:
    tone = np.sin(2 * np.pi * 1000 * np.arange(1600) / ANALYSIS_HZ).astype(np.float32)
    rows = log_mel(tone)

    assert rows.shape == (8, speech.MEL_BANDS)
    filters = mel_filters()
    assert (rows.argmax(axis=1) == filters[1000 * speech.FFT_SAMPLES // ANALYSIS_HZ].argmax()).all()


def test_warped_filters_move_up_and_stay_in_the_band() -> None:
    bins = np.arange(speech.FFT_SAMPLES // 2 + 1)
    centres = [(bins @ mel_filters(w)) / mel_filters(w).sum(axis=0) for w in (0.8, 1.0, 1.25)]

    assert (centres[0][3:36] < centres[1][3:36]).all()
    assert (centres[1][3:36] < centres[2][3:36]).all()
    assert all((np.diff(c) > 0).all() and c[-1] < 245 for c in centres)


def test_every_mouth_is_in_range_and_of_a_known_viseme() -> None:
    for mouth in MOUTHS.values():
        assert mouth.viseme in VISEMES
        assert all(0.0 <= value <= 1.0 for value in mouth[1:])


def test_psdur_lines_become_contiguous_phones() -> None:
    phones = phones_from_psdur("pau:0.200 g:0.280 UH:0.359 \n")

    assert phones == (Phone(0.0, 0.2, "pau"), Phone(0.2, 0.28, "g"), Phone(0.28, 0.359, "uh"))


def test_alignment_file_reads_as_phones_of_the_table() -> None:
    phones = read_alignment(DATA / "librivox_austen_0890.phone.json")

    assert len(phones) == 54
    assert all(p.name in MOUTHS and p.end_s > p.start_s for p in phones)
    assert phones[1].name == "ah"


@pytest.mark.parametrize(
    ("symbol", "name"),
    [
        ("ɑː", "aa"),
        ("tʃʲ", "ch"),
        ("aɪɚ", "ay"),
        ("ɐ̃ʊ̃", "ah"),
        ("y", "front_rounded_close"),
        ("", "pau"),
        ("(en)", None),
    ],
)
def test_ipa_of_any_language_finds_its_mouth(symbol: str, name: str | None) -> None:
    assert phone_from_ipa(symbol) == name


def test_openness_follows_the_phones_without_lag() -> None:
    phones = (Phone(0.0, 0.4, "pau"), Phone(0.4, 0.6, "aa"), Phone(0.6, 1.0, "m"))
    curve = openness_curve(phones, 25)

    assert len(curve) == 25
    assert curve.argmax() in (12, 13)
    assert curve.max() > 0.98
    assert curve[:7].max() < 0.01
    assert curve[19:].max() < 0.01
    times_s = np.arange(100) / 100
    assert list(visemes_at(phones, times_s)[[39, 40, 60]]) == [0, VISEMES.index("aa"), VISEMES.index("PP")]
    assert mouth_curves(phones, times_s)[80, CHANNELS.index("press")] > 0.99


def test_one_moment_is_the_same_as_that_moment_of_the_curves() -> None:
    phones = (Phone(0.0, 0.3, "pau"), Phone(0.3, 0.45, "aa"), Phone(0.45, 0.5, "m"), Phone(0.5, 0.9, "uw"))
    times_s = np.arange(0.1, 0.8, 0.01)

    alone = np.stack([mouth_at(phones, float(t)) for t in times_s])
    np.testing.assert_allclose(alone, mouth_curves(phones, times_s), atol=5e-3)


def test_measured_lag_is_positive_where_the_mouth_is_late() -> None:
    truth = np.convolve(np.random.default_rng(0).standard_normal(500), np.hanning(20), "same")

    assert lag_ms(np.roll(truth, 3), truth) == pytest.approx(30.0, abs=1.0)
    assert lag_ms(np.roll(truth, -2), truth) == pytest.approx(-20.0, abs=1.0)
