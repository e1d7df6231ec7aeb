"""Whatever a phone, a designer or a scraper hands over becomes an avatar or is refused in one line with a remedy."""

from __future__ import annotations

import io
import struct
import zlib

import cv2
import numpy as np
import pytest
import skimage.data
from PIL import Image, ImageCms

from avatars.bundled import FIRST, bundled_portraits
from avatars.canvas import Canvas
from avatars.errors import FaceNotFound, PortraitRejected
from avatars.faces import FaceMesh
from avatars.picture import load_picture
from avatars.precompile import FaceSettings
from avatars.store import AvatarStore
from avatars.workshop import Recipe, Workshop

pytestmark = pytest.mark.unit

PORTRAIT = load_picture(bundled_portraits()[0].path, max_side_px=480)
OTHER = load_picture(bundled_portraits()[1].path, max_side_px=480)
HEIGHT, WIDTH = PORTRAIT.shape[:2]


@pytest.fixture(scope="module")
def workshop(tmp_path_factory):
    store = AvatarStore(tmp_path_factory.mktemp("store"))
    return Workshop(store, finder=FaceMesh()), store


def encoded(picture, kind, **options):
    image = picture if isinstance(picture, Image.Image) else Image.fromarray(picture)
    buffer = io.BytesIO()
    image.save(buffer, kind, **options)
    return buffer.getvalue()


def shifted(right, down):
    """The portrait moved by shares of its side, so that an edge comes close to the face or cuts it."""
    move = np.float32([[1, 0, right * WIDTH], [0, 1, down * HEIGHT]])
    return cv2.warpAffine(PORTRAIT, move, (WIDTH, HEIGHT), borderValue=(90, 95, 110))


def leaning(degrees):
    turn = cv2.getRotationMatrix2D((WIDTH / 2, HEIGHT / 2), degrees, 1)
    return cv2.warpAffine(PORTRAIT, turn, (WIDTH, HEIGHT))


def exif(orientation):
    data = Image.Exif()
    data[0x0112] = orientation
    return data


def drawn():
    flat = cv2.pyrMeanShiftFiltering(PORTRAIT, 8, 30)
    edges = cv2.adaptiveThreshold(cv2.cvtColor(flat, cv2.COLOR_RGB2GRAY), 255, 0, 0, 9, 4)
    return np.where(edges[:, :, None] == 0, 20, flat // 48 * 48 + 24).astype(np.uint8)


def cut_out():
    alpha = np.zeros((HEIGHT, WIDTH), np.uint8)
    cv2.ellipse(alpha, (240, 238), (144, 225), 0, 0, 360, 255, -1)
    return np.dstack([PORTRAIT, alpha])


def with_profile():
    lab = ImageCms.ImageCmsProfile(ImageCms.createProfile("LAB")).tobytes()
    return encoded(PORTRAIT, "JPEG", icc_profile=lab)


def png_that_says(width, height):
    """A few bytes whose header promises a very large picture."""

    def chunk(name, data):
        return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))

    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", header)
        + chunk(b"IDAT", zlib.compress(b"\0" * 1000))
        + chunk(b"IEND", b"")
    )


GOOD = {
    "png": lambda: encoded(PORTRAIT, "PNG"),
    "jpeg": lambda: encoded(PORTRAIT, "JPEG", quality=85),
    "progressive jpeg": lambda: encoded(PORTRAIT, "JPEG", progressive=True),
    "grey jpeg": lambda: encoded(Image.fromarray(PORTRAIT).convert("L"), "JPEG"),
    "cmyk jpeg": lambda: encoded(Image.fromarray(PORTRAIT).convert("CMYK"), "JPEG"),
    "broken colour profile": with_profile,
    "junk for a colour profile": lambda: encoded(PORTRAIT, "JPEG", icc_profile=b"junk" * 40),
    "palette png": lambda: encoded(Image.fromarray(PORTRAIT).convert("P"), "PNG"),
    "palette png with a hole": lambda: encoded(Image.fromarray(PORTRAIT).convert("P"), "PNG", transparency=0),
    "cut out": lambda: encoded(cut_out(), "PNG"),
    "cut out webp": lambda: encoded(cut_out(), "WEBP"),
    "grey and alpha": lambda: encoded(Image.fromarray(cut_out()).convert("LA"), "PNG"),
    "sixteen bit grey": lambda: encoded(
        Image.fromarray(cv2.cvtColor(PORTRAIT, cv2.COLOR_RGB2GRAY).astype(np.uint16) * 257), "PNG"
    ),
    "webp": lambda: encoded(PORTRAIT, "WEBP"),
    "avif": lambda: encoded(PORTRAIT, "AVIF", speed=10),
    "gif": lambda: encoded(Image.fromarray(PORTRAIT).convert("P"), "GIF"),
    "bmp": lambda: encoded(PORTRAIT, "BMP"),
    "tiff": lambda: encoded(PORTRAIT, "TIFF", compression="tiff_lzw"),
    "tiff of two pages": lambda: encoded(PORTRAIT, "TIFF", save_all=True, append_images=[Image.fromarray(OTHER)]),
    "animated webp": lambda: encoded(
        Image.fromarray(PORTRAIT), "WEBP", save_all=True, append_images=[Image.fromarray(PORTRAIT)] * 2, duration=40
    ),
    "from a phone held upright": lambda: encoded(np.rot90(PORTRAIT), "JPEG", exif=exif(6)),
    "from a phone upside down": lambda: encoded(np.rot90(PORTRAIT, 2), "JPEG", exif=exif(3)),
    "mirrored by its metadata": lambda: encoded(PORTRAIT[:, ::-1], "JPEG", exif=exif(2)),
    "much metadata": lambda: encoded(PORTRAIT, "JPEG", comment=b"x" * 60_000),
    "huge": lambda: encoded(cv2.resize(PORTRAIT, (4200, 4200)), "JPEG", quality=60),
    "odd sides": lambda: encoded(PORTRAIT[:479, 1:478], "PNG"),
    "face at the left": lambda: encoded(shifted(-0.3, 0), "PNG"),
    "face at the right": lambda: encoded(shifted(0.3, 0), "PNG"),
    "face at the top": lambda: encoded(shifted(0, -0.17), "PNG"),
    "face at the bottom": lambda: encoded(shifted(0, 0.3), "PNG"),
    "face in the upper left": lambda: encoded(shifted(-0.29, -0.155), "PNG"),
    "face in the upper right": lambda: encoded(shifted(0.29, -0.155), "PNG"),
    "face in the lower left": lambda: encoded(shifted(-0.29, 0.29), "PNG"),
    "face in the lower right": lambda: encoded(shifted(0.29, 0.29), "PNG"),
    "chin cut off": lambda: encoded(shifted(0, 0.4), "PNG"),
    "leaning": lambda: encoded(leaning(20), "PNG"),
    "an astronaut": lambda: encoded(skimage.data.astronaut(), "PNG"),
    "drawn": lambda: encoded(drawn(), "PNG"),
    "two people": lambda: encoded(np.hstack([PORTRAIT, OTHER]), "PNG"),
    "small": lambda: encoded(cv2.resize(PORTRAIT, (160, 160), interpolation=cv2.INTER_AREA), "PNG"),
    "black and white": lambda: encoded(Image.fromarray(PORTRAIT).convert("1"), "PNG"),
}

REFUSED = {
    "turned by 90 degrees": (lambda: encoded(np.rot90(PORTRAIT), "PNG"), "turn the picture upright"),
    "upside down": (lambda: encoded(np.rot90(PORTRAIT, 2), "PNG"), "turn the picture upright"),
    "nobody": (lambda: encoded(skimage.data.coffee(), "PNG"), "front-facing face"),
    "noise": (
        lambda: encoded(np.random.default_rng(1).integers(0, 256, (300, 300, 3), dtype=np.uint8), "PNG"),
        "front-facing face",
    ),
    "tiny": (lambda: encoded(cv2.resize(PORTRAIT, (48, 48)), "PNG"), "256 pixels"),
    "a speck": (lambda: encoded(PORTRAIT[:1, :1], "PNG"), "256 pixels"),
    "a tiny face": (
        lambda: encoded(cv2.copyMakeBorder(cv2.resize(PORTRAIT, (90, 90)), 300, 300, 300, 300, 0), "PNG"),
        "face",
    ),
    "a strip": (lambda: encoded(PORTRAIT[200:230], "PNG"), "256 pixels"),
    "empty": (lambda: b"", "the file is empty"),
    "text": (lambda: b"hello, this is no picture at all", "PNG or JPEG"),
    "a web page": (lambda: b"<!DOCTYPE html><html>404</html>", "a web page"),
    "an svg": (lambda: b"<svg xmlns='http://www.w3.org/2000/svg'/>", "SVG"),
    "a pdf": (lambda: b"%PDF-1.7\n%junk", "PDF"),
    "a heic": (lambda: b"\0\0\0\x18ftypheic" + b"\0" * 80, "HEIC"),
    "cut short": (lambda: encoded(PORTRAIT, "JPEG")[:9000], "damaged"),
    "a damaged png": (lambda: encoded(PORTRAIT, "PNG")[:20_000], "damaged"),
    "a bomb": (lambda: png_that_says(30_000, 30_000), "8000 pixels"),
    "a bomb that only warns": (lambda: png_that_says(12_000, 12_000), "8000 pixels"),
}


@pytest.mark.parametrize("name", GOOD)
def test_a_usable_picture_becomes_an_avatar(workshop, tmp_path, name):
    shop, store = workshop
    source = tmp_path / "portrait.bin"  # the name says nothing: scrapers lie
    source.write_bytes(GOOD[name]())
    made = shop.make(source, "somebody", Recipe(again=True))
    packet = store.open("somebody")
    canvas = Canvas(packet, 512)
    patch = np.full((256, 256, 3), 128, np.uint8)
    assert (canvas.blend(0, patch) != canvas.anchor(0)).any()
    assert made.info["report"]["grade"] in "ABCD"


@pytest.mark.parametrize("name", REFUSED)
def test_an_unusable_picture_is_refused_in_one_line_that_says_what_to_do(workshop, tmp_path, name):
    shop, _ = workshop
    make, remedy = REFUSED[name]
    source = tmp_path / "portrait.jpg"
    source.write_bytes(make())
    with pytest.raises((PortraitRejected, FaceNotFound)) as refused:
        shop.make(source, "nobody", Recipe(again=True))
    text = str(refused.value)
    assert "\n" not in text
    assert remedy in text
    assert text.startswith(("portrait.jpg:", "no face found in portrait.jpg:"))


def test_missing_files_and_folders_are_refused(workshop, tmp_path):
    shop, _ = workshop
    for source in (tmp_path / "missing.png", tmp_path):
        with pytest.raises(PortraitRejected):
            shop.make(source, "nobody")


def test_phone_rotation_and_plain_pictures_give_the_same_pixels():
    upright = encoded(PORTRAIT, "PNG")
    turned = encoded(np.rot90(PORTRAIT), "PNG", exif=exif(6))
    assert np.array_equal(load_picture(upright), load_picture(turned))


def test_a_huge_picture_is_reduced_to_what_is_asked_for():
    big = encoded(cv2.resize(PORTRAIT, (4000, 3000)), "JPEG")
    assert load_picture(big, max_side_px=1000).shape == (750, 1000, 3)


def test_the_wanted_one_of_two_people_is_taken(workshop, tmp_path):
    shop, store = workshop
    smaller = cv2.copyMakeBorder(cv2.resize(OTHER, (340, 340)), 70, 70, 0, 0, cv2.BORDER_REPLICATE)
    (tmp_path / "pair.png").write_bytes(encoded(np.hstack([PORTRAIT, smaller]), "PNG"))
    boxes = []
    for face in (0, 1):
        made = shop.make(tmp_path / "pair.png", f"face{face}", Recipe(FaceSettings(face=face)))
        assert made.info["report"]["faces_found"] == 2
        boxes.append(store.open(f"face{face}").coords[0])
    assert boxes[0][2] < WIDTH < boxes[1][0]
    with pytest.raises(FaceNotFound, match="face 2 was asked for, it has 2"):
        shop.make(tmp_path / "pair.png", "face2", Recipe(FaceSettings(face=2)))


@pytest.mark.parametrize(
    ("change", "about"),
    [
        (lambda p: cv2.GaussianBlur(p, (0, 0), 5), "sharpness"),
        (lambda p: cv2.resize(p, (180, 180), interpolation=cv2.INTER_AREA), "size"),
        (lambda p: leaning(25), "pose"),
        (lambda p: (p // 6).astype(np.uint8), "light"),
        (lambda p: shifted(0, 0.42), "edge"),
    ],
)
def test_the_report_says_what_is_wrong_with_a_picture(workshop, tmp_path, change, about):
    shop, _ = workshop
    (tmp_path / "p.png").write_bytes(encoded(change(PORTRAIT), "PNG"))
    report = shop.make(tmp_path / "p.png", "reported", Recipe(again=True)).info["report"]
    assert about in {item["about"] for item in report["advice"]}
    assert report["grade"] > "A"


def test_the_bundled_portraits_are_the_best_grade(workshop):
    shop, _ = workshop
    for portrait in bundled_portraits()[:FIRST]:
        assert shop.make(portrait.path, portrait.id).info["report"]["grade"] == "A"
