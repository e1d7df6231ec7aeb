"""Settings: a wrong one is named, with what to write instead."""

from __future__ import annotations

import pytest

from streamer import config
from streamer.errors import ConfigError

pytestmark = pytest.mark.unit


def test_defaults_listen_on_loopback_only():
    found = config.load(None, {})
    assert (found.host, found.port) == ("127.0.0.1", 8007)


def test_other_host_needs_a_token():
    with pytest.raises(ConfigError, match="token"):
        config.load(None, {"host": "0.0.0.0"})
    assert config.load(None, {"host": "0.0.0.0", "token": "0123456789abcdef"}).token


def test_file_and_flags_are_laid_over_each_other(tmp_path):
    path = tmp_path / "a.toml"
    path.write_text('port = 9000\n[vad]\nhangover_ms = 300\n[ice]\nservers = [{urls = ["stun:localhost:3478"]}]\n')
    found = config.load(path, {"port": 9001, "ice.udp_ports": (40000, 40100)})
    assert found.port == 9001
    assert found.vad.hangover_ms == 300
    assert found.ice.udp_ports == (40000, 40100)
    assert found.ice.servers[0].urls == ("stun:localhost:3478",)


def test_a_flag_for_the_engine_keeps_the_options_of_the_file(tmp_path):
    path = tmp_path / "a.toml"
    path.write_text("[engine_options]\nmouth_px = 384\n")
    assert config.load(path, {"engine_options.phones": "pocketsphinx"}).engine_options == {
        "mouth_px": 384,
        "phones": "pocketsphinx",
    }


@pytest.mark.parametrize(
    ("text", "named"),
    [("prot = 1", "prot"), ("port = 'x'", "port"), ("port =", "TOML"), ("[vad]\naggressiveness = 9", "aggressiveness")],
)
def test_wrong_setting_is_named(tmp_path, text, named):
    path = tmp_path / "a.toml"
    path.write_text(text)
    with pytest.raises(ConfigError, match=named):
        config.load(path, {})


def test_missing_file_is_said_in_one_line(tmp_path):
    with pytest.raises(ConfigError, match="cannot be read"):
        config.load(tmp_path / "none.toml", {})
