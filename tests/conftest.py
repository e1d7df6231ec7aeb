"""Shared by all tests: a file lies in a folder that says what kind it is; one real server for those that talk."""

from __future__ import annotations

import datetime
import os

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from hypothesis import settings

from avatars.enliven import enliven
from avatars.store import AvatarStore
from streamer.bench.served import serve_command, served

# The same cases every time, so that a test fails for a change and not for a draw; `search` looks for new ones.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # as the command line does, before numpy comes in
settings.register_profile("house", deadline=None, max_examples=60, derandomize=True)
settings.register_profile("search", deadline=None, max_examples=1000)
settings.load_profile(os.environ.get("LIVEANCHOR_HYPOTHESIS", "house"))

KINDS = {"unit", "contract", "loopback", "browser", "gpu", "soak", "bench"}


def pytest_collection_modifyitems(items):
    """A test without its folder's mark would be skipped by nobody and found by nobody."""
    for item in items:
        kind = item.path.parent.name
        if kind in KINDS and item.get_closest_marker(kind) is None:
            item.add_marker(getattr(pytest.mark, kind))


@pytest.fixture(scope="session")
def avatars_dir(tmp_path_factory):
    """A store of avatars for servers of this run: the bundled portraits are prepared once, their idle frames too."""
    store = AvatarStore(tmp_path_factory.mktemp("avatars"))
    store.ensure_bundled(lambda avatar_id, done: None)
    for avatar_id in store.ids():
        enliven(store, avatar_id)
    return store.root


@pytest.fixture(scope="session")
def server(avatars_dir):
    """`liveanchor serve` in a process of its own, on a free port, for the whole run; `server.url` ends with a slash."""
    with served(serve_command(avatars_dir)) as running:
        yield running


KEYS = {
    "P-256": lambda: ec.generate_private_key(ec.SECP256R1()),
    "P-384": lambda: ec.generate_private_key(ec.SECP384R1()),
    "Ed25519": ed25519.Ed25519PrivateKey.generate,
    "RSA": lambda: rsa.generate_private_key(65537, 2048),
}


def issued(subject, key, by, *, authority=False, days=30, purpose=x509.ExtendedKeyUsageOID.EMAIL_PROTECTION):
    """A certificate for a key; `by`: the issuer's name and key."""
    named = {n: x509.Name([x509.NameAttribute(x509.NameOID.ORGANIZATION_NAME, n)]) for n in (subject, by[0])}
    now = datetime.datetime.now(datetime.UTC)
    usage = dict.fromkeys(
        ("content_commitment", "key_encipherment", "data_encipherment", "key_agreement", "encipher_only",
         "decipher_only"), False,
    )  # fmt: skip
    builder = (
        x509.CertificateBuilder()
        .subject_name(named[subject])
        .issuer_name(named[by[0]])
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=60))
        .not_valid_after(now + datetime.timedelta(days=days))
        .add_extension(x509.BasicConstraints(authority, None), critical=True)
        .add_extension(
            x509.KeyUsage(digital_signature=True, key_cert_sign=authority, crl_sign=authority, **usage), critical=True
        )
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(by[1].public_key()), critical=False)
    )
    if not authority:
        builder = builder.add_extension(x509.ExtendedKeyUsage([purpose]), critical=False)
    return builder.sign(by[1], hashes.SHA256())


def write_papers(folder, kind="P-256", **leaf):
    """Files of a chain and its key, made here and now: certificate, key, and the authority at the top."""
    top, own = KEYS["P-256"](), KEYS[kind]()
    authority = issued("An Authority", top, ("An Authority", top), authority=True)
    certificate = issued("A Newsroom", own, ("An Authority", top), **leaf)
    pem = serialization.Encoding.PEM
    folder.mkdir(exist_ok=True)
    (folder / "chain.pem").write_bytes(certificate.public_bytes(pem))
    whole = serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    (folder / "key.pem").write_bytes(own.private_bytes(pem, *whole))
    return folder / "chain.pem", folder / "key.pem", authority.public_bytes(pem).decode()


@pytest.fixture
def papers():
    """`certificate, key, authority = papers(folder)`: two files, and the PEM text of who is at the top."""
    return write_papers
