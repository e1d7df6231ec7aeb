"""The doctor finds what is missing and says what to do; where all is well it says so."""

from __future__ import annotations

import asyncio
import json
import socket
import subprocess
import sys

import pytest

from streamer.app import ice_settings
from streamer.config import Config, IceConfig, IceServerConfig, check
from streamer.doctor import machine, network
from streamer.doctor.finding import Verdict


def test_command_looks_at_everything_and_makes_a_real_call(avatars_dir):
    command = [sys.executable, "-m", "streamer.cli", "doctor", "--json", "--avatars", str(avatars_dir)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100)
    report = json.loads(done.stdout)
    lines = {finding["check"]: finding for finding in report["findings"]}
    assert (report["well"], done.returncode) == (True, 0), report
    assert {"packages", "clock", "disk", "gpu", "engine", "VP8", "H264", "Opus", "port", "udp ports", "call"} <= set(
        lines
    )
    assert "connected in" in lines["call"]["found"]
    assert all(finding["remedy"] for finding in lines.values() if finding["verdict"] != "good")


def test_taken_port_and_narrow_range_are_named_with_their_remedy():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        finding = network.tcp_port(check(Config(port=taken.getsockname()[1])))
    assert finding.verdict is Verdict.WARN
    assert "--port" in finding.remedy
    narrow = network.udp_ports(check(Config(ice=IceConfig(udp_ports=(40_000, 40_001)))))
    assert (narrow.verdict, "widen" in narrow.remedy) == (Verdict.BAD, True)


def test_relays_that_do_not_answer_are_named():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as silent:
        silent.bind(("127.0.0.1", 0))
        port = silent.getsockname()[1]
        servers = (
            IceServerConfig((f"stun:127.0.0.1:{port}",)),
            IceServerConfig((f"turn:127.0.0.1:{port}?transport=udp",), "u", "p"),
        )
        config = check(Config(ice=IceConfig(servers=servers)))
        found = {each.check: each for each in asyncio.run(network.candidates(config, ice_settings(config)))}
    assert (found["stun"].verdict, found["turn"].verdict) == (Verdict.BAD, Verdict.BAD)
    assert "credentials" in found["turn"].remedy


def test_folder_that_cannot_be_written_is_bad(tmp_path, monkeypatch):
    def full(**_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(machine.tempfile, "NamedTemporaryFile", full)
    finding = machine.disk(tmp_path / "not" / "yet")
    assert finding.verdict is Verdict.BAD
    assert "--avatars" in finding.remedy


@pytest.mark.parametrize("look", [machine.python, machine.cores, machine.clock, machine.descriptors, machine.gpu])
def test_every_look_at_the_machine_gives_a_line(look):
    finding = look()
    assert finding.found
    assert (finding.verdict is Verdict.GOOD) == (finding.remedy == "")
