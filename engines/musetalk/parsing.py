"""BiSeNet: which part of a face every pixel is, for masks as MuseTalk makes them."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as functional
from PIL import Image
from torch import Tensor, nn

U8 = npt.NDArray[np.uint8]
F32 = npt.NDArray[np.float32]

SIDE_PX = 512
CLASSES = 19
_MEAN = np.array([0.485, 0.456, 0.406], np.float32)
_SPREAD = np.array([0.229, 0.224, 0.225], np.float32)


class ConvNorm(nn.Module):
    """Convolution, batch norm, ReLU."""

    def __init__(self, channels_in: int, channels_out: int, size: int = 3) -> None:
        super().__init__()
        self.conv = nn.Conv2d(channels_in, channels_out, size, padding=size // 2, bias=False)
        self.bn = nn.BatchNorm2d(channels_out)

    def forward(self, x: Tensor) -> Tensor:
        return functional.relu(self.bn(self.conv(x)))


class BasicBlock(nn.Module):
    def __init__(self, channels_in: int, channels_out: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(channels_in, channels_out, 3, stride=stride, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(channels_out)
        self.conv2 = nn.Conv2d(channels_out, channels_out, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(channels_out)
        if stride != 1 or channels_in != channels_out:
            reduce = nn.Conv2d(channels_in, channels_out, 1, stride=stride, bias=False)
            self.downsample = nn.Sequential(reduce, nn.BatchNorm2d(channels_out))

    def forward(self, x: Tensor) -> Tensor:
        hidden = self.bn2(self.conv2(functional.relu(self.bn1(self.conv1(x)))))
        short = self.downsample(x) if hasattr(self, "downsample") else x
        return functional.relu(short + hidden)


class Resnet18(nn.Module):
    """Features at an eighth, a sixteenth and a thirty-second of the side."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(3, 64, 7, stride=2, padding=3, bias=False)
        self.bn1 = nn.BatchNorm2d(64)
        self.layer1 = nn.Sequential(BasicBlock(64, 64, 1), BasicBlock(64, 64, 1))
        self.layer2 = nn.Sequential(BasicBlock(64, 128, 2), BasicBlock(128, 128, 1))
        self.layer3 = nn.Sequential(BasicBlock(128, 256, 2), BasicBlock(256, 256, 1))
        self.layer4 = nn.Sequential(BasicBlock(256, 512, 2), BasicBlock(512, 512, 1))

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        x = functional.max_pool2d(functional.relu(self.bn1(self.conv1(x))), 3, stride=2, padding=1)
        eighth = self.layer2(self.layer1(x))
        sixteenth = self.layer3(eighth)
        return eighth, sixteenth, self.layer4(sixteenth)


class AttentionRefinement(nn.Module):
    def __init__(self, channels_in: int, channels_out: int) -> None:
        super().__init__()
        self.conv = ConvNorm(channels_in, channels_out)
        self.conv_atten = nn.Conv2d(channels_out, channels_out, 1, bias=False)
        self.bn_atten = nn.BatchNorm2d(channels_out)

    def forward(self, x: Tensor) -> Tensor:
        features = self.conv(x)
        weight = torch.sigmoid(self.bn_atten(self.conv_atten(features.mean(dim=(2, 3), keepdim=True))))
        return features * weight


class ContextPath(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.resnet = Resnet18()
        self.arm16 = AttentionRefinement(256, 128)
        self.arm32 = AttentionRefinement(512, 128)
        self.conv_head32 = ConvNorm(128, 128)
        self.conv_head16 = ConvNorm(128, 128)
        self.conv_avg = ConvNorm(512, 128, 1)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        eighth, sixteenth, last = self.resnet(x)
        overall = self.conv_avg(last.mean(dim=(2, 3), keepdim=True))
        up32 = _enlarged(self.arm32(last) + overall, sixteenth)
        up32 = self.conv_head32(up32)
        up16 = self.conv_head16(_enlarged(self.arm16(sixteenth) + up32, eighth))
        return eighth, up16, up32


class FeatureFusion(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.convblk = ConvNorm(256, 256, 1)
        self.conv1 = nn.Conv2d(256, 64, 1, bias=False)
        self.conv2 = nn.Conv2d(64, 256, 1, bias=False)

    def forward(self, spatial: Tensor, context: Tensor) -> Tensor:
        features = self.convblk(torch.cat([spatial, context], dim=1))
        weight = self.conv2(functional.relu(self.conv1(features.mean(dim=(2, 3), keepdim=True))))
        return features * torch.sigmoid(weight) + features


class Head(nn.Module):
    def __init__(self, channels_in: int, width: int) -> None:
        super().__init__()
        self.conv = ConvNorm(channels_in, width)
        self.conv_out = nn.Conv2d(width, CLASSES, 1, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.conv_out(self.conv(x))
        return out


class BiSeNet(nn.Module):
    """(B, 3, 512, 512) normalised to three (B, 19, 512, 512): the answer, and two coarser ones it was trained with."""

    def __init__(self) -> None:
        super().__init__()
        self.cp = ContextPath()
        self.ffm = FeatureFusion()
        self.conv_out = Head(256, 256)
        self.conv_out16 = Head(128, 64)
        self.conv_out32 = Head(128, 64)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        eighth, up16, up32 = self.cp(x)
        heads = self.conv_out(self.ffm(eighth, up16)), self.conv_out16(up16), self.conv_out32(up32)
        size = x.shape[2:]
        first, second, third = (
            functional.interpolate(head, size, mode="bilinear", align_corners=True) for head in heads
        )
        return first, second, third


class Parser:
    """Implements avatars.precompile.FaceParser."""

    def __init__(self, network: nn.Module, device: str = "cpu") -> None:
        self._network = network.eval().to(device)
        self._device = torch.device(device)

    def parse(self, crop: U8) -> U8:
        """(512, 512, 3) u8 RGB to (512, 512) u8 classes."""
        with torch.inference_mode():
            logits = self._network(torch.from_numpy(normalised(crop)).to(self._device))[0]
            return np.asarray(logits[0].argmax(dim=0).to(torch.uint8).cpu().numpy())


def normalised(picture: U8) -> F32:
    """(h, w, 3) u8 RGB of any size to (1, 3, 512, 512) f32 as the network was trained on."""
    if picture.shape[:2] != (SIDE_PX, SIDE_PX):
        picture = np.asarray(Image.fromarray(picture).resize((SIDE_PX, SIDE_PX), Image.Resampling.BILINEAR))
    scaled = (picture.astype(np.float32) / 255.0 - _MEAN) / _SPREAD
    return np.ascontiguousarray(scaled.transpose(2, 0, 1)[None])


def _enlarged(x: Tensor, like: Tensor) -> Tensor:
    return functional.interpolate(x, like.shape[2:], mode="nearest")
