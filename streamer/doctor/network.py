"""Checks of the way to visitors: the port, UDP, addresses, STUN and TURN, and one real call through loopback."""

from __future__ import annotations

import asyncio
import socket
from contextlib import closing

import numpy as np
from aiortc import RTCConfiguration, RTCPeerConnection

from streamer.clock import NS_PER_MS, Clock
from streamer.config import Config
from streamer.doctor.finding import Finding, bad, good, warn
from streamer.errors import SignalingError
from streamer.media import SOUND_HZ
from streamer.rtc import aiortc_hooks as hooks
from streamer.rtc import ice
from streamer.rtc.peer import Peer
from streamer.rtc.settings import IceSettings, PeerSettings
from streamer.rtc.threads import CodecThreads
from streamer.soak import echo
from streamer.soak.client import Visit, Visitor

CALL_WITHIN_S = 15.0
SIZE_PX = (256, 256)


def tcp_port(config: Config) -> Finding:
    """Whether the page's port can be had."""
    where = f"{config.host}:{config.port}"
    family = socket.AF_INET6 if ":" in config.host else socket.AF_INET
    with closing(socket.socket(family, socket.SOCK_STREAM)) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((config.host, config.port))
        except OSError as error:
            remedy = "a server runs there already, or choose another with --port"
            return warn("port", f"{where} cannot be bound: {error.strerror}", remedy)
    return good("port", f"{where} is free")


def udp_ports(config: Config) -> Finding:
    """Whether the media ports can be bound."""
    if config.ice.udp_ports is None:
        return good("udp ports", "any; for a firewall or a container fix them with --udp-ports 40000-40100")
    low, high = config.ice.udp_ports
    free = 0
    for port in range(low, high + 1):
        with closing(socket.socket(socket.AF_INET, socket.SOCK_DGRAM)) as probe:
            try:
                probe.bind(("0.0.0.0", port))
                free += 1
            except OSError:
                continue
    needed = config.limits.sessions
    if free < needed:
        remedy = f"each of {needed} sessions takes one for each address; widen --udp-ports"
        return bad("udp ports", f"{free} of {low}-{high} are free", remedy)
    return good("udp ports", f"{free} of {low}-{high} are free; open them for UDP in the firewall")


async def candidates(config: Config, settings: IceSettings) -> list[Finding]:
    """Addresses a visitor would be offered, and whether STUN and TURN add theirs."""
    connection = RTCPeerConnection(RTCConfiguration(iceServers=ice.to_rtc_servers(settings.ice_servers)))
    try:
        connection.createDataChannel("doctor")
        assert connection.sctp is not None
        agent = hooks.connection(connection.sctp.transport.transport)
        found = await ice.gather(agent, settings, remote_is_local=False)
    except (SignalingError, ValueError) as error:
        return [bad("addresses", str(error), "connect this machine to a network, or set --announce")]
    finally:
        await connection.close()
    by_kind = {kind: sorted({c.host for c in found if c.type == kind}) for kind in ("host", "srflx", "relay")}
    lines = [_addresses(by_kind["host"], config)]
    for scheme, kind, name in (("stun", "srflx", "stun"), ("turn", "relay", "turn")):
        if not any(server.url.startswith(scheme) for server in settings.ice_servers):
            continue
        if by_kind[kind]:
            lines.append(good(name, f"answers; adds {', '.join(by_kind[kind])}"))
        else:
            remedy = f"check the {name} server's address, its UDP port and the credentials in [ice]"
            lines.append(bad(name, f"no answer within {settings.gather_cap_ms} ms", remedy))
    if not any(server.url.startswith("turn") for server in settings.ice_servers):
        remedy = "set one under [ice] servers if visitors sit behind strict firewalls"
        lines.append(warn("turn", "no TURN server is set", remedy))
    return lines


def _addresses(hosts: list[str], config: Config) -> Finding:
    if not hosts:
        return warn(
            "addresses", "only loopback", "visitors elsewhere cannot reach this machine: connect it to a network"
        )
    said = f"offers {', '.join(hosts)}"
    if config.ice.announce:
        return good("addresses", f"{said} (announced)")
    return good("addresses", f"{said}; behind NAT or in a container set --announce PUBLIC_IP")


async def call(clock: Clock) -> Finding:
    """A whole call inside this process: ICE, DTLS, SRTP, VP8 and Opus both ways."""
    t = np.arange(2 * SOUND_HZ)
    tone = (8000 * np.sin(2 * np.pi * 300 * t / SOUND_HZ)).astype(np.int16)
    visitor = Visitor(Visit(microphone=tone), clock)
    with CodecThreads() as codecs:
        peer = Peer(PeerSettings(size_px=SIZE_PX, remote_is_local=True), clock, codecs)
        began_ns = clock.now_ns()
        try:
            async with asyncio.timeout(CALL_WITHIN_S), asyncio.TaskGroup() as group:
                await visitor.connect(peer.answer)
                tasks = [group.create_task(peer.run()), group.create_task(visitor.run())]
                await peer.connected()
                connected_ms = (clock.now_ns() - began_ns) / NS_PER_MS
                tasks.append(group.create_task(echo.run(peer, SIZE_PX)))
                while visitor.counts.pictures < 10:
                    await clock.sleep_until(clock.now_ns() + 20 * NS_PER_MS)
                seen_ms = (clock.now_ns() - began_ns) / NS_PER_MS
                for task in tasks:
                    task.cancel()
        except (TimeoutError, SignalingError, OSError):
            remedy = "a local firewall keeps UDP from 127.0.0.1, or the machine is far too busy"
            return bad("call", f"no picture within {CALL_WITHIN_S:.0f} s over loopback", remedy)
        finally:
            await peer.close()
            await visitor.close()
    return good("call", f"connected in {connected_ms:.0f} ms, ten pictures after {seen_ms:.0f} ms, over loopback")
