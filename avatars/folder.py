"""Folders of packet files: opened without following links, hashed, and replaced whole or not at all."""

from __future__ import annotations

import ctypes
import errno
import fcntl
import hashlib
import os
import secrets
import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, NamedTuple

from avatars.errors import PacketInvalid

INFO_FILE = "avator_info.json"
"""Spelt as MuseTalk and the protocol document spell it."""
SEVEN = ("frames.pt", "latents.pt", "masks.pt", "geometry.pkl", "coords.pkl", "mask_coords.pkl", INFO_FILE)

_MAKING = ".making-"
_KEPT = ".kept-"
_AT_FDCWD = -100
_RENAME_EXCHANGE = 2


class FileIdentity(NamedTuple):
    """What tells one version of a file from another."""

    device: int
    inode: int
    size: int
    changed_ns: int
    written_ns: int


class PacketFolder:
    """An open folder. Its files all belong to one version of a packet, even while another takes its place."""

    def __init__(self, path: Path) -> None:
        """Raises FileNotFoundError; PacketInvalid where the path is a link or no folder."""
        self.path = path
        try:
            self._fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        except OSError as error:
            if error.errno == errno.ENOENT:
                raise
            raise PacketInvalid(path.name, "a folder", "a link or something else") from None

    def __enter__(self) -> PacketFolder:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._fd)

    def names(self) -> list[str]:
        return sorted(os.listdir(self._fd))  # noqa: PTH208 - of the folder that is open, whatever its path now holds

    def open(self, name: str) -> IO[bytes]:
        """A regular file of the folder. Raises PacketInvalid where it is missing, a link, or no file."""
        try:
            # Non-blocking, or a pipe in a file's place would hold us for ever.
            flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
            descriptor = os.open(name, flags, dir_fd=self._fd)
        except OSError as error:
            found = "none" if error.errno == errno.ENOENT else "a link or something unreadable"
            raise PacketInvalid(name, "a file", found) from None
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            os.close(descriptor)
            raise PacketInvalid(name, "a file", "something else")
        return os.fdopen(descriptor, "rb")

    def put_into(self, target: Path, name: str) -> None:
        """One of the files under the same name in another folder: the same bytes, not copied where that can be."""
        try:
            os.link(name, target / name, src_dir_fd=self._fd, follow_symlinks=False)
        except OSError:  # other file systems, or none that has links
            with self.open(name) as source, (target / name).open("xb") as copy:
                shutil.copyfileobj(source, copy)
                os.utime(copy.fileno(), ns=(os.fstat(source.fileno()).st_mtime_ns,) * 2)


def identity(file: IO[bytes]) -> FileIdentity:
    status = os.fstat(file.fileno())
    return FileIdentity(status.st_dev, status.st_ino, status.st_size, status.st_ctime_ns, status.st_mtime_ns)


def sha256(file: IO[bytes]) -> str:
    """Digest of a whole file, read and not mapped, so that it does not stay resident."""
    digest = hashlib.sha256()
    file.seek(0)
    while piece := file.read(1 << 20):
        digest.update(piece)
    return digest.hexdigest()


@contextmanager
def replacing(root: Path, name: str) -> Iterator[Path]:
    """A new folder to fill; at the end of the block it takes the place of `root/name` in one step, or is removed.

    Readers of the old one keep it as long as they hold it open.
    """
    root.mkdir(parents=True, exist_ok=True)
    remove_leftovers(root)
    making, lock = _claim(root, name)
    try:
        yield making
        for path in sorted(making.iterdir()):
            _sync(path)
        _sync(making)
        _swap(making, root / name)
        _sync(root)
    finally:
        _delete(making)  # after the swap this is the old version
        os.close(lock)


def _claim(root: Path, name: str) -> tuple[Path, int]:
    """A new folder, and the lock without which others may take it for a leftover and remove it."""
    while True:
        making = root / f"{_MAKING}{name}-{secrets.token_hex(4)}"
        making.mkdir()
        try:
            lock = os.open(making, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            continue
        fcntl.flock(lock, fcntl.LOCK_EX)
        if making.exists():
            return making, lock
        os.close(lock)


def remove_leftovers(root: Path) -> None:
    """Remove what a killed process left half made: those whose maker holds no lock any more."""
    for kept in root.glob(f"{_KEPT}*"):
        target = root / kept.name.removeprefix(_KEPT)
        if target.exists():
            _delete(kept)
        else:
            kept.rename(target)
    for path in root.glob(f"{_MAKING}*"):
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        except OSError:
            continue
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            _delete(path)
        except BlockingIOError:
            continue
        finally:
            os.close(descriptor)


def remove(root: Path, name: str) -> None:
    """Take a folder out of sight in one step, then delete it. Raises FileNotFoundError."""
    gone = root / f"{_MAKING}{name}-{secrets.token_hex(4)}"
    (root / name).rename(gone)
    _delete(gone)


def _delete(path: Path) -> None:
    if path.is_symlink():
        path.unlink(missing_ok=True)
    else:
        shutil.rmtree(path, ignore_errors=True)


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _swap(new: Path, target: Path) -> None:
    """Put `new` in place of `target`; what was there, if anything, ends up under the name of `new`."""
    if not target.exists() and not target.is_symlink():
        new.rename(target)
        return
    if _exchange(new, target):
        return
    # Without an exchange in one step there is a moment without a packet, never one with half a packet.
    # Killed in that moment, `remove_leftovers` puts the old one back.
    kept = target.with_name(f"{_KEPT}{target.name}")
    _delete(kept)
    target.rename(kept)
    new.rename(target)
    kept.rename(new)


def _exchange(a: Path, b: Path) -> bool:
    try:
        renameat2 = ctypes.CDLL(None, use_errno=True).renameat2
    except (AttributeError, OSError):
        return False
    return bool(renameat2(_AT_FDCWD, os.fsencode(a), _AT_FDCWD, os.fsencode(b), _RENAME_EXCHANGE) == 0)
