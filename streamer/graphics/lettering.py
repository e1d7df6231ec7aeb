"""Words as pixels: shaped by HarfBuzz through Pillow, in a font that has the letters. Knows no picture."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw, ImageFont, features

from streamer.errors import ConfigError
from streamer.media import U8

FOLDERS = (Path("/usr/share/fonts"), Path("/usr/local/share/fonts"), Path("/Library/Fonts"), Path("C:/Windows/Fonts"))
FAMILIES = (
    "NotoSans-Regular.ttf", "DejaVuSans.ttf", "LiberationSans-Regular.ttf", "Arial.ttf", "arial.ttf",
    "NotoSansCJK-Regular.ttc", "NotoSansArabic-Regular.ttf", "NotoSansDevanagari-Regular.ttf",
    "NotoSansHebrew-Regular.ttf",
)  # fmt: skip
MAX_CHARACTERS = 80

Font = ImageFont.FreeTypeFont


@dataclass(frozen=True, slots=True)
class Lettering:
    """How words are set. `font`: a TTF or OTF file; None: Pillow's own or the machine's, whichever has the letters."""

    font: str | None = None
    letters: str = ""
    """All letters there will be, so that one font is chosen for all words."""

    def check(self) -> None:
        """Raises ConfigError where the font cannot be used."""
        if self.font is not None:
            _load(self.font, 20)

    def mask(self, text: str, height_px: int) -> U8:
        """(h, w) u8 coverage of one line; `height_px`: from ascender to descender. Read-only."""
        return _mask(" ".join(text.split())[:MAX_CHARACTERS], height_px, self)


@lru_cache(maxsize=256)
def _mask(text: str, height_px: int, lettering: Lettering) -> U8:
    size = max(6, round(height_px * 0.8))
    font = _load(lettering.font, size) if lettering.font is not None else _fitting(lettering.letters or text, size)
    left, _, right, bottom = font.getbbox(text) if text else (0, 0, 1, 1)
    ascent, descent = font.getmetrics()
    width = max(1, int(np.ceil(right - min(0, left))))
    image = Image.new("L", (width, max(1, ascent + descent, int(bottom))))
    ImageDraw.Draw(image).text((-min(0, left), 0), text, fill=255, font=font)
    mask: U8 = np.asarray(image, np.uint8)
    mask.flags.writeable = False
    return mask


def _load(path: str, size: int) -> Font:
    engine = ImageFont.Layout.RAQM if features.check("raqm") else ImageFont.Layout.BASIC
    try:
        return ImageFont.truetype(path, size, layout_engine=engine)
    except OSError as error:
        raise ConfigError(path, "is no font that can be read") from error


def _fitting(text: str, size: int) -> Font:
    """The first font that has every letter; the machine's first or Pillow's own where none has."""
    own = ImageFont.load_default(size)
    assert isinstance(own, ImageFont.FreeTypeFont)
    if _has(own, text):
        return own
    fonts = [_load(str(path), size) for path in _machine_fonts()]
    return next((font for font in fonts if _has(font, text)), fonts[0] if fonts else own)


def _has(font: Font, text: str) -> bool:
    """Whether no letter is shown as the box for missing ones."""
    missing = bytes(font.getmask("\U0010fffe"))
    return all(bytes(font.getmask(letter)) != missing for letter in set(text) if not letter.isspace())


@lru_cache(maxsize=1)
def _machine_fonts() -> tuple[Path, ...]:
    found: dict[str, Path] = {}
    for folder in FOLDERS:
        if folder.is_dir():
            for path in folder.rglob("*.tt?"):
                found.setdefault(path.name, path)
    return tuple(found[name] for name in FAMILIES if name in found)
