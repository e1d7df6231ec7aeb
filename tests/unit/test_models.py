"""Models are fetched from servers that break off, lie and change, and only right files are kept."""

from __future__ import annotations

import hashlib
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from typer.testing import CliRunner

from engines.models import manifest
from engines.models.errors import ModelRefused, ModelSetUnknown, ModelUnreachable
from engines.models.fetch import Wanted, check, fetch
from engines.models.pull import LOCK_NAME, Source, pull, verify
from streamer.cli import app

pytestmark = pytest.mark.unit

CONTENT = bytes(range(256)) * 4096
DIGEST = hashlib.sha256(CONTENT).hexdigest()
REVISION = "0123456789abcdef0123456789abcdef01234567"


class QuietServer(ThreadingHTTPServer):
    """A client that hangs up on a lie is no error of the server."""

    daemon_threads = True

    def handle_error(self, request, client_address):
        pass


class Hub:
    """A loopback server whose behaviour a test sets; it writes down what it was asked."""

    def __init__(self):
        self.content = CONTENT
        self.cuts = []
        """Bytes to send before the connection breaks, one a request; empty: all of them."""
        self.etag = None
        self.linked = None
        self.length = None
        self.ranges = True
        self.wrong_range = False
        self.status = []
        self.redirect = False
        self.asked = []
        hub = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_):
                pass

            def do_GET(self):
                hub.answer(self)

        self._server = QuietServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,), name="hub")
        self._thread.start()
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"

    def close(self):
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def answer(self, request):
        self.asked.append((request.path, request.headers.get("Range")))
        if self.status:
            request.send_error(self.status.pop(0))
            return
        if self.redirect and not request.path.startswith("/store"):
            request.send_response(302)
            request.send_header("Location", f"{self.url}/store{request.path}")
            if self.linked:
                request.send_header("X-Linked-Etag", f'"{self.linked}"')
            request.send_header("Content-Length", "0")
            request.end_headers()
            return
        start = 0
        wanted = request.headers.get("Range")
        if wanted and self.ranges and request.headers.get("If-Range") in (None, f'"{self.etag}"'):
            start = int(wanted.removeprefix("bytes=").rstrip("-"))
        body = self.content[start:]
        request.send_response(206 if start else 200)
        if start:
            first = start + 1 if self.wrong_range else start
            request.send_header("Content-Range", f"bytes {first}-{len(self.content) - 1}/{len(self.content)}")
        request.send_header("Content-Length", str(self.length or len(body)))
        if self.etag:
            request.send_header("ETag", f'"{self.etag}"')
        request.end_headers()
        cut = self.cuts.pop(0) if self.cuts else len(body)
        request.wfile.write(body[:cut])
        request.close_connection = True


@pytest.fixture
def hub():
    server = Hub()
    yield server
    server.close()


def wanted(**more):
    return Wanted("weights.bin", **({"size_bytes": len(CONTENT), "sha256": DIGEST} | more))


def test_a_file_arrives_whole_with_its_progress(hub, tmp_path):
    seen = []
    assert fetch(f"{hub.url}/a", tmp_path / "a.bin", wanted(), lambda done, total: seen.append((done, total))) == DIGEST
    assert (tmp_path / "a.bin").read_bytes() == CONTENT
    assert seen[0] == (0, len(CONTENT))
    assert seen[-1] == (len(CONTENT), len(CONTENT))
    assert [p.name for p in tmp_path.iterdir()] == ["a.bin"]


def test_broken_connections_are_gone_on_with(hub, tmp_path):
    hub.cuts = [100_000, 300_000, 1]
    fetch(f"{hub.url}/a", tmp_path / "a.bin", wanted())
    assert (tmp_path / "a.bin").read_bytes() == CONTENT
    assert [r for _, r in hub.asked] == [None, "bytes=100000-", "bytes=400000-", "bytes=400001-"]


def test_a_later_run_goes_on_where_an_earlier_one_stopped(hub, tmp_path):
    (tmp_path / "a.bin.part").write_bytes(CONTENT[:777])
    fetch(f"{hub.url}/a", tmp_path / "a.bin", wanted())
    assert hub.asked == [("/a", "bytes=777-")]
    assert (tmp_path / "a.bin").read_bytes() == CONTENT


def test_a_server_without_ranges_begins_anew(hub, tmp_path):
    hub.ranges = False
    hub.cuts = [5000]
    fetch(f"{hub.url}/a", tmp_path / "a.bin", wanted())
    assert (tmp_path / "a.bin").read_bytes() == CONTENT


def test_a_connection_that_never_gets_on_ends_and_keeps_what_came(hub, tmp_path):
    hub.cuts = [1234] + [0] * 20
    with pytest.raises(ModelUnreachable, match="Run the command again"):
        fetch(f"{hub.url}/a", tmp_path / "a.bin", wanted())
    assert (tmp_path / "a.bin.part").read_bytes() == CONTENT[:1234]
    assert not (tmp_path / "a.bin").exists()


def test_a_busy_server_is_asked_again_and_a_missing_file_is_not(hub, tmp_path):
    hub.status = [503, 429]
    fetch(f"{hub.url}/a", tmp_path / "a.bin", wanted())
    hub.status, hub.asked = [404], []
    with pytest.raises(ModelUnreachable, match="404"):
        fetch(f"{hub.url}/b", tmp_path / "b.bin", wanted())
    assert len(hub.asked) == 1


def test_no_server_and_no_web_address_are_one_line(tmp_path, hub):
    url = hub.url
    hub.close()
    with pytest.raises(ModelUnreachable):
        fetch(f"{url}/a", tmp_path / "a.bin", wanted())
    with pytest.raises(ModelUnreachable, match="no web address"):
        fetch("file:///etc/hostname", tmp_path / "a.bin", wanted())
    hub.__init__()


def test_a_server_that_lies_about_the_content_is_refused(hub, tmp_path):
    hub.content = CONTENT[:-1] + b"!"
    with pytest.raises(ModelRefused, match=DIGEST):
        fetch(f"{hub.url}/a", tmp_path / "a.bin", wanted())
    assert list(tmp_path.iterdir()) == []


def test_a_server_that_offers_another_size_is_refused_before_it_sends(hub, tmp_path):
    hub.content = CONTENT + b"more"
    with pytest.raises(ModelRefused, match=str(len(CONTENT) + 4)):
        fetch(f"{hub.url}/a", tmp_path / "a.bin", wanted())


def test_a_range_that_begins_elsewhere_is_refused(hub, tmp_path):
    (tmp_path / "a.bin.part").write_bytes(CONTENT[:500])
    hub.wrong_range = True
    with pytest.raises(ModelRefused, match="from byte 500"):
        fetch(f"{hub.url}/a", tmp_path / "a.bin", wanted())


def test_an_end_before_the_announced_length_is_a_broken_connection(hub, tmp_path):
    hub.length, hub.ranges = len(CONTENT) + 10, False
    with pytest.raises(ModelUnreachable, match="breaks off"):
        fetch(f"{hub.url}/a", tmp_path / "a.bin", wanted(size_bytes=None))
    assert not (tmp_path / "a.bin").exists()


def test_a_file_without_a_known_digest_is_held_to_the_announced_one(hub, tmp_path):
    unknown = Wanted("weights.bin")
    with pytest.raises(ModelRefused, match="a digest"):
        fetch(f"{hub.url}/a", tmp_path / "a.bin", unknown)
    hub.redirect, hub.linked, hub.etag = True, DIGEST, "some-storage-tag"
    assert fetch(f"{hub.url}/a", tmp_path / "a.bin", unknown) == DIGEST
    hub.linked = hashlib.sha256(b"other").hexdigest()
    with pytest.raises(ModelRefused, match="announces"):
        fetch(f"{hub.url}/b", tmp_path / "b.bin", unknown)
    hub.redirect = False
    hub.etag = hashlib.sha1(b"blob %d\0" % len(CONTENT) + CONTENT, usedforsecurity=False).hexdigest()
    assert fetch(f"{hub.url}/c", tmp_path / "c.bin", unknown) == DIGEST


def test_check_finds_the_changed_byte(tmp_path):
    (tmp_path / "a").write_bytes(CONTENT)
    assert check(tmp_path / "a", wanted()) == DIGEST
    (tmp_path / "a").write_bytes(CONTENT[:-1] + b"?")
    with pytest.raises(ModelRefused):
        check(tmp_path / "a", wanted())


# ---- sets ----


KNOWN_DIGEST, KNOWN_SIZE = f'sha256 = "{DIGEST}"', f"bytes = {len(CONTENT)}"


def described(digest=KNOWN_DIGEST, size=KNOWN_SIZE):
    return manifest.parse(
        "toy",
        f"""
        title = "A toy"
        [[source]]
        repository = "someone/toy"
        revision = "{REVISION}"
        licence = "MIT"
        [[source.file]]
        path = "deep/weights.bin"
        to = "weights.bin"
        {size}
        {digest}
        [[source.file]]
        path = "config.json"
        to = "sub/config.json"
        """,
    )


def test_a_set_is_fetched_kept_and_verified(hub, tmp_path):
    hub.etag = DIGEST
    done = pull(described(), tmp_path, Source(hub.url))
    assert [d.how for d in done] == ["fetched", "fetched"]
    assert [path for path, _ in hub.asked] == [
        f"/someone/toy/resolve/{REVISION}/deep/weights.bin", f"/someone/toy/resolve/{REVISION}/config.json",
    ]  # fmt: skip
    assert (tmp_path / "toy" / "sub" / "config.json").read_bytes() == CONTENT
    assert [d.how for d in pull(described(), tmp_path, Source(hub.url))] == ["kept", "kept"]
    assert len(hub.asked) == 2
    assert len(verify(described(), tmp_path)) == 2


def test_a_file_once_fetched_is_held_to_its_noted_digest(hub, tmp_path):
    hub.etag = DIGEST
    pull(described(), tmp_path, Source(hub.url))
    noted = json.loads((tmp_path / "toy" / LOCK_NAME).read_text())
    assert noted["sub/config.json"] == {"sha256": DIGEST, "repository": "someone/toy", "revision": REVISION}
    (tmp_path / "toy" / "sub" / "config.json").write_bytes(CONTENT[:-1] + b"!")
    with pytest.raises(ModelRefused, match=r"config\.json"):
        verify(described(), tmp_path)
    assert [d.how for d in pull(described(), tmp_path, Source(hub.url))] == ["kept", "fetched"]


def test_a_mirror_that_changed_a_file_later_is_refused(hub, tmp_path):
    hub.etag = DIGEST
    pull(described(), tmp_path, Source(hub.url))
    (tmp_path / "toy" / "sub" / "config.json").unlink()
    hub.content = CONTENT[::-1]
    hub.etag = hashlib.sha256(hub.content).hexdigest()
    with pytest.raises(ModelRefused):
        pull(described(), tmp_path, Source(hub.url))


def test_a_folder_without_a_network_is_enough(tmp_path):
    there = tmp_path / "usb" / "deep"
    there.mkdir(parents=True)
    (there / "weights.bin").write_bytes(CONTENT)
    (tmp_path / "usb" / "config.json").write_bytes(b"{}")
    done = pull(described(), tmp_path / "models", Source(folder=tmp_path / "usb"))
    assert [d.how for d in done] == ["copied", "copied"]
    (there / "weights.bin").write_bytes(CONTENT[:-1] + b"!")
    with pytest.raises(ModelRefused):
        pull(described(), tmp_path / "others", Source(folder=tmp_path / "usb"))
    with pytest.raises(ModelUnreachable, match="it is not in"):
        pull(described(), tmp_path / "empty", Source(folder=tmp_path / "none"))


def test_a_file_that_the_disk_cannot_hold_is_refused_first(hub, tmp_path):
    with pytest.raises(ModelUnreachable, match="the disk has"):
        pull(described(size=f"bytes = {10**18}"), tmp_path, Source(hub.url))
    assert hub.asked == []


def one_file(revision=REVISION, to="a", more=""):
    head = f'title = "t"\n[[source]]\nrepository="a/b"\nrevision="{revision}"\nlicence="MIT"\n'
    return f'{head}[[source.file]]\npath="a"\nto="{to}"\n{more}'


@pytest.mark.parametrize(
    "text",
    [
        "title = 1",
        "no toml",
        one_file(revision="main"),
        one_file(to="../a"),
        one_file(to="/a"),
        one_file(more='sha256 = "12"'),
        one_file(more="bytes = 0"),
        one_file() + '[[source.file]]\npath="b"\nto="a"',
    ],
)
def test_a_broken_description_is_refused(text):
    with pytest.raises(ModelSetUnknown):
        manifest.parse("toy", text)


def test_shipped_sets_are_fixed_and_licensed_and_hold_no_face_detector():
    assert {"liveportrait", "joyvasa"} <= set(manifest.names())
    for name in manifest.names():
        for file in manifest.load(name).files:
            assert len(file.revision) == 40
            assert file.licence
            assert "insightface" not in file.path.lower()
    assert all(file.sha256 for file in manifest.load("liveportrait").files)
    with pytest.raises(ModelSetUnknown, match="liveportrait"):
        manifest.load("../liveportrait")


def test_shipped_sets_put_files_where_the_engines_look():
    weights = pytest.importorskip("engines.liveportrait.weights", reason="needs the [liveportrait] extra")
    from engines.liveportrait.joyvasa import checkpoint

    liveportrait = {file.to for file in manifest.load("liveportrait").files}
    assert liveportrait == {*weights.FILES.values(), weights.RETARGETING_FILE}
    joyvasa = {file.to for file in manifest.load("joyvasa").files}
    assert {checkpoint.GENERATOR_FILE, checkpoint.TEMPLATE_FILE} <= joyvasa
    assert {f"{checkpoint.HUBERT_FOLDER}/config.json", f"{checkpoint.HUBERT_FOLDER}/pytorch_model.bin"} <= joyvasa


def test_the_command_lists_and_refuses_in_one_line(tmp_path, hub):
    run = CliRunner()
    listed = run.invoke(app, ["models", "list", "--models", str(tmp_path)])
    assert "liveportrait: " in listed.stdout
    assert "0 of 5 files here" in listed.stdout
    hub.status = [404] * 10
    done = run.invoke(app, ["models", "pull", "liveportrait", "--models", str(tmp_path), "--mirror", hub.url])
    assert isinstance(done.exception, ModelUnreachable)
    checked = run.invoke(app, ["models", "verify", "liveportrait", "--models", str(tmp_path)])
    assert isinstance(checked.exception, ModelUnreachable)
    assert isinstance(run.invoke(app, ["models", "pull", "nobody"]).exception, ModelSetUnknown)
