"""Where a peer is met: which sockets are bound, which addresses offered, how long STUN and TURN are waited for."""

from __future__ import annotations

import asyncio
import errno
import ipaddress
import random
import socket
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from aioice import Candidate, ice, stun, turn
from aioice.candidate import candidate_foundation, candidate_priority
from aiortc import RTCIceServer

from streamer.errors import SignalingError
from streamer.rtc import aiortc_hooks as hooks
from streamer.rtc.offer import MAX_CANDIDATES, MAX_LINE_CHARS, MAX_OFFER_BYTES, usable_candidate
from streamer.rtc.settings import IceServer, IceSettings

_TOP_PREFERENCE = 65535


@dataclass(frozen=True, slots=True)
class Bind:
    """A socket to open and the address the peer is told."""

    bound: str
    offered: str


def plan_binds(host_addresses: Iterable[str], announce: Sequence[str], *, remote_is_local: bool) -> list[Bind]:
    """Sockets for a peer, best first. Announced addresses replace the machine's own; a local peer gets loopback too."""
    own = list(host_addresses)
    binds = [Bind("127.0.0.1", "127.0.0.1")] if remote_is_local else []
    if not announce:
        return binds + [Bind(address, address) for address in own]
    for address in announce:
        wildcard = "0.0.0.0" if ipaddress.ip_address(address).version == 4 else "::"
        binds.append(Bind(address if address in own else wildcard, address))
    return list(dict.fromkeys(binds))


def to_rtc_servers(servers: Sequence[IceServer]) -> list[RTCIceServer]:
    """Our settings in aiortc's words. Never None: aiortc would ask a public server."""
    return [RTCIceServer(urls=s.url, username=s.username, credential=s.credential) for s in servers]


async def gather(agent: ice.Connection, settings: IceSettings, *, remote_is_local: bool) -> list[Candidate]:
    """Open the sockets of a peer and learn their outside names. Raises SignalingError if none can be opened."""
    own = ice.get_host_addresses(use_ipv4=True, use_ipv6=True)
    protocols: list[ice.StunProtocol] = []
    for rank, bind in enumerate(plan_binds(own, settings.announce, remote_is_local=remote_is_local)):
        opened = _open(bind.bound, settings.udp_ports)
        if opened is None:
            continue
        loop = asyncio.get_running_loop()
        _, protocol = await loop.create_datagram_endpoint(lambda: ice.StunProtocol(agent), sock=opened)
        protocol.local_candidate = _host_candidate(bind, opened.getsockname()[1], rank)
        hooks.adopt(agent, protocol)
        protocols.append(protocol)
    if not protocols:
        raise SignalingError("no UDP port is free for another peer", 503)
    found = [protocol.local_candidate for protocol in protocols]
    if agent.stun_server is not None or agent.turn_server is not None:
        found += await _ask_servers(agent, protocols, settings.gather_cap_ms)
    return found


async def _ask_servers(agent: ice.Connection, protocols: list[ice.StunProtocol], cap_ms: int) -> list[Candidate]:
    """What STUN and TURN say within the cap; an unreachable server costs the cap and nothing else."""
    found: list[Candidate] = []
    try:
        async with asyncio.timeout(cap_ms / 1000), asyncio.TaskGroup() as group:
            if agent.stun_server is not None:
                for protocol in protocols:
                    address = ipaddress.ip_address(protocol.local_candidate.host)
                    if address.version == 4 and not address.is_loopback:
                        group.create_task(_reflexive(protocol, agent.stun_server, found), name="stun")
            if agent.turn_server is not None:
                group.create_task(_relayed(agent, found), name="turn")
    except TimeoutError:
        pass
    return found


async def _reflexive(protocol: ice.StunProtocol, server: tuple[str, int], found: list[Candidate]) -> None:
    try:
        candidate, _ = await ice.server_reflexive_candidate(protocol, server)
    except (OSError, stun.TransactionError, KeyError):
        return
    found.append(candidate)


async def _relayed(agent: ice.Connection, found: list[Candidate]) -> None:
    assert agent.turn_server is not None
    try:
        candidate, protocol = await ice.relayed_candidate(
            component=1,
            hide_related_address=False,
            protocol_factory=lambda: ice.StunProtocol(agent),
            turn_server=agent.turn_server,
            turn_username=agent.turn_username,
            turn_password=agent.turn_password,
            turn_ssl=agent.turn_ssl,
            turn_transport=agent.turn_transport,
        )
    except (OSError, stun.TransactionError, KeyError):
        return
    hooks.adopt(agent, protocol)
    found.append(candidate)


def _host_candidate(bind: Bind, port: int, rank: int) -> Candidate:
    candidate = Candidate(
        foundation=candidate_foundation("host", "udp", f"{bind.bound} {bind.offered}"),
        component=1,
        transport="udp",
        priority=candidate_priority(1, "host", _TOP_PREFERENCE - rank),
        host=bind.bound,
        port=port,
        type="host",
    )
    candidate.host = bind.offered  # pairs go by the bound address, the peer is told the offered one
    return candidate


def _open(address: str, ports: tuple[int, int] | None) -> socket.socket | None:
    """A bound non-blocking UDP socket, or None where the address or the range has no room."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    for port in _order(ports):
        opened = socket.socket(family, socket.SOCK_DGRAM)
        try:
            if family == socket.AF_INET6:
                opened.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            opened.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, turn.UDP_SOCKET_BUFFER_SIZE)
            opened.setblocking(False)
            opened.bind((address, port))
        except OSError as error:
            opened.close()
            if error.errno == errno.EADDRINUSE:
                continue
            return None
        return opened
    return None


def _order(ports: tuple[int, int] | None) -> Iterable[int]:
    """Ports to try: any, or the whole range from a random place, so that a port just given back rests."""
    if ports is None:
        return (0,)
    first, last = ports
    start = random.randrange(first, last + 1)
    return (*range(start, last + 1), *range(first, start))


def read_fragment(text: str, remote_ufrag: str, *, remote_is_local: bool) -> list[str]:
    """Candidate lines of a trickle fragment (RFC 8840) that ICE can use. Raises SignalingError."""
    if len(text) > MAX_OFFER_BYTES:
        raise SignalingError("the fragment is too large", 413)
    values: list[str] = []
    count = 0
    for line in text.replace("\r\n", "\n").split("\n"):
        if len(line) > MAX_LINE_CHARS or not line.isprintable():
            raise SignalingError("the fragment has a line that is no SDP")
        if line.startswith("a=ice-ufrag:") and remote_ufrag and line[len("a=ice-ufrag:") :].strip() != remote_ufrag:
            raise SignalingError("ICE restarts are not supported; make a new session", 422)
        if not line.startswith("a=candidate:"):
            continue
        count += 1
        if count > MAX_CANDIDATES:
            raise SignalingError(f"the fragment has more than {MAX_CANDIDATES} candidates")
        value = line[len("a=candidate:") :]
        if len(value.split()) < 8:
            raise SignalingError("the fragment has a broken candidate")
        if usable_candidate(value, remote_is_local=remote_is_local):
            values.append(value)
    return values
