"""Pictures as phones, designers and scrapers make them, to plain upright sRGB pixels, or refused in one line."""

from __future__ import annotations

import io
import warnings
from pathlib import Path

import cv2
import numpy as np
import numpy.typing as npt
from PIL import Image, ImageCms, ImageOps, UnidentifiedImageError

from avatars.errors import PortraitRejected

U8 = npt.NDArray[np.uint8]

MAX_PICTURE_PIXELS = 64_000_000
"""Above this a picture is refused from its header, before anything is decoded."""
_FORMATS = ("PNG", "JPEG", "WEBP", "AVIF", "GIF", "BMP", "TIFF", "PPM", "JPEG2000", "PSD", "ICO")
_BACKDROP = (201, 205, 210)
"""RGB laid behind transparent pictures."""
_SAVE_AS = "save it as PNG or JPEG"


def load_picture(source: Path | bytes, name: str | None = None, max_side_px: int | None = None) -> U8:
    """(H, W, 3) u8 sRGB, upright, opaque; the first frame of an animation. A larger one is reduced to `max_side_px`.

    Raises PortraitRejected with a remedy where the file is no picture, broken or too large.
    """
    label = name or (source.name if isinstance(source, Path) else "the picture")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", Image.DecompressionBombWarning)
            return _load(source, label, max_side_px)
    except FileNotFoundError:
        raise PortraitRejected(label, "there is no such file", "check the path") from None
    except IsADirectoryError:
        raise PortraitRejected(label, "this is a folder", "name a picture inside it") from None
    except PermissionError:
        raise PortraitRejected(label, "the file may not be read", "change its permissions") from None
    except Image.DecompressionBombError:
        raise PortraitRejected(label, "the picture has too many pixels", "reduce it to 8000 pixels a side") from None
    except UnidentifiedImageError:
        raise PortraitRejected(label, _unknown(source), _SAVE_AS) from None
    except (OSError, SyntaxError, ValueError, EOFError, MemoryError) as error:
        raise PortraitRejected(
            label, f"the picture is damaged ({error})", f"open it elsewhere and {_SAVE_AS}"
        ) from error


def fit_inside(rgb: U8, max_width_px: int, max_height_px: int) -> U8:
    """Reduce a picture to fit; never enlarge it."""
    height, width = rgb.shape[:2]
    shrink = min(1.0, max_width_px / width, max_height_px / height)
    if shrink == 1.0:
        return rgb
    size = (max(1, round(width * shrink)), max(1, round(height * shrink)))
    return np.asarray(cv2.resize(rgb, size, interpolation=cv2.INTER_AREA), dtype=np.uint8)


def _load(source: Path | bytes, label: str, max_side_px: int | None) -> U8:
    Image.init()  # naming formats skips Pillow's own search for plugins
    with Image.open(source if isinstance(source, Path) else io.BytesIO(source), formats=_FORMATS) as picture:
        if picture.width * picture.height > MAX_PICTURE_PIXELS:
            reason = f"{picture.width} x {picture.height} is more than {MAX_PICTURE_PIXELS // 1_000_000} megapixels"
            raise PortraitRejected(label, reason, "reduce it to 8000 pixels a side")
        if max_side_px is not None:
            picture.draft("RGB", (max_side_px, max_side_px))  # JPEG decodes straight to a half, a quarter, an eighth
        picture.load()
        upright = ImageOps.exif_transpose(picture)
    rgb = np.asarray(_to_srgb(upright))
    return rgb if max_side_px is None else fit_inside(rgb, max_side_px, max_side_px)


def _to_srgb(picture: Image.Image) -> Image.Image:
    profile = picture.info.get("icc_profile")
    if picture.mode in ("I;16", "I;16B", "I;16L", "I", "F"):
        return _from_deep_grey(picture)
    if picture.mode in ("P", "PA", "LA", "La", "RGBa", "RGBA") or "transparency" in picture.info:
        cut_out = picture.convert("RGBA")
        picture = Image.new("RGB", cut_out.size, _BACKDROP)
        picture.paste(cut_out, mask=cut_out.getchannel("A"))
    elif picture.mode not in ("RGB", "L", "CMYK", "LAB", "YCbCr"):
        picture = picture.convert("RGB")
    if profile and picture.mode in ("RGB", "L", "CMYK", "LAB"):
        try:
            given = ImageCms.ImageCmsProfile(io.BytesIO(profile))
            converted = ImageCms.profileToProfile(picture, given, ImageCms.createProfile("sRGB"), outputMode="RGB")
        except (ImageCms.PyCMSError, OSError):
            converted = None  # a broken or foreign profile: take the numbers as they are, as browsers do
        if converted is not None:
            return converted
    return picture.convert("RGB")


def _from_deep_grey(picture: Image.Image) -> Image.Image:
    """Sixteen-bit and float greys: stretched by their type's range, or by their own where they leave it."""
    values = np.nan_to_num(np.asarray(picture, dtype=np.float64))
    top = float(values.max(initial=0.0))
    full = 1.0 if top <= 1.0 else 255.0 if top <= 255.0 else 65535.0 if top <= 65535.0 else top
    grey = np.rint(np.clip(values / full, 0.0, 1.0) * 255.0).astype(np.uint8)
    return Image.fromarray(grey).convert("RGB")


def _unknown(source: Path | bytes) -> str:
    """What an unreadable file seems to be, from its first bytes."""
    if isinstance(source, Path):
        with source.open("rb") as file:
            head = file.read(64)
    else:
        head = source[:64]
    if not head:
        return "the file is empty"
    if head[4:8] == b"ftyp" and head[8:12] in (b"heic", b"heix", b"mif1", b"msf1", b"hevc"):
        return "HEIC pictures are not read"
    if head.lstrip().startswith((b"<svg", b"<?xml")):
        return "a drawing in SVG has no pixels"
    if head.startswith(b"%PDF"):
        return "a PDF is not a picture"
    if head.lstrip().lower().startswith((b"<!doctype", b"<html")):
        return "this is a web page, not a picture"
    return "the file is not a picture of a known kind"
