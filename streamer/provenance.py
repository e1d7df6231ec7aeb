"""C2PA manifests in finished films: that they were made by this program, with generated faces. Knows no session.

Needs the extra `c2pa` and a certificate of the user's; asks no network.
"""

from __future__ import annotations

import io
import os
from importlib import metadata
from pathlib import Path
from typing import IO, Any

from streamer.errors import ConfigError, NotSigned

SUFFIX = ".mp4"
"""Of films that can carry a manifest; WebM cannot."""
SOURCE_TYPE = "http://cv.iptc.org/newscodes/digitalsourcetype/compositeWithTrainedAlgorithmicMedia"
"""A given portrait and a given or synthesised voice, with a mouth that a trained network moves."""
_SETTINGS = {"core": {"backing_store_memory_threshold_in_mb": 8}}
"""Not the whole film in memory, but a temporary file; the library hashes in pieces of up to 256 MB all the same."""
_CURVES = {256: "es256", 384: "es384", 521: "es512"}
_PIXEL = bytes.fromhex(
    "89504e470d0a1a0a0000000d49484452000000010000000108000000003a7e9b550000000a49444154789c636800"
    "000082008177cd72b60000000049454e44ae426082"
)
"""A PNG, to try a certificate on."""


class FilmSigner:
    """One certificate and its key. Threads may share it."""

    def __init__(self, certificate: Path, key: Path) -> None:
        """Raises ConfigError with the remedy: the extra, a file, or a certificate that C2PA does not take."""
        try:
            import c2pa
        except ImportError as error:
            reason = f"needs {error.name}: pip install 'liveanchor[c2pa]'"
            raise ConfigError("c2pa", reason) from error
        self._c2pa: Any = c2pa
        self._version = metadata.version("liveanchor")
        self._certificate = _read(certificate)
        self._key, self._algorithm = _key_of(key)
        try:
            self._sign("image/png", io.BytesIO(_PIXEL), io.BytesIO(), "trial")
        except c2pa.C2paError as error:
            reason = f"cannot sign with {key.name} ({error}); it takes the signer's certificate, then those above it"
            raise ConfigError(str(certificate), reason) from error

    def sign(self, film: Path) -> None:
        """Put a manifest into a finished film, whole or not at all. Raises NotSigned: the film is as it was."""
        part = film.with_name(film.name + ".signing")
        try:
            with film.open("rb") as source, part.open("w+b") as target:
                self._sign("video/mp4", source, target, film.name)
                target.flush()
                os.fsync(target.fileno())  # or a crash could leave the name with nothing behind it
            part.replace(film)
        except (self._c2pa.C2paError, OSError) as error:
            raise NotSigned(film.name, str(error)) from error
        finally:
            part.unlink(missing_ok=True)

    def _sign(self, kind: str, source: IO[bytes], target: IO[bytes], title: str) -> None:
        agent = {"name": "liveanchor", "version": self._version}
        created = {"action": "c2pa.created", "softwareAgent": agent, "digitalSourceType": SOURCE_TYPE}
        manifest = {
            "claim_generator_info": [agent],
            "title": title,
            "assertions": [{"label": "c2pa.actions.v2", "data": {"actions": [created]}}],
        }
        info = self._c2pa.C2paSignerInfo(self._algorithm, self._certificate, self._key, None)
        with (
            self._c2pa.Context.from_dict(_SETTINGS) as context,
            self._c2pa.Signer.from_info(info) as signer,
            self._c2pa.Builder(manifest, context=context) as builder,
        ):
            builder.sign(signer, kind, source, target)


def signer_of(certificate: str | Path | None, key: str | Path | None) -> FilmSigner | None:
    """What the settings name; None where they name nothing. Raises ConfigError."""
    if certificate is None or key is None:
        return None
    return FilmSigner(Path(certificate), Path(key))


def _key_of(path: Path) -> tuple[bytes, str]:
    """A private key as PKCS 8 and the algorithm that goes with it. Raises ConfigError."""
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa

    try:
        key = serialization.load_pem_private_key(_read(path), None)
    except (ValueError, TypeError, UnsupportedAlgorithm) as error:
        raise ConfigError(str(path), "is no private key in PEM form without a password") from error
    if isinstance(key, ed25519.Ed25519PrivateKey):
        algorithm = "ed25519"
    elif isinstance(key, rsa.RSAPrivateKey):
        algorithm = "ps256"
    elif isinstance(key, ec.EllipticCurvePrivateKey) and key.curve.key_size in _CURVES:
        algorithm = _CURVES[key.curve.key_size]
    else:
        raise ConfigError(str(path), "must be of P-256, P-384, P-521, Ed25519 or RSA")
    whole = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    return key.private_bytes(*whole), algorithm


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise ConfigError(str(path), f"cannot be read ({error.strerror})") from error
