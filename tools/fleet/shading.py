"""Surfaces: skin, strands, eyes, teeth and cloth as shader graphs. No picture files but the CC0 lip masks."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import bpy
from body import MPFB

Socket = Any


def linear(colour: str) -> tuple[float, float, float]:
    """'#rrggbb' as scene-linear RGB."""
    channels = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    return tuple(c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels)  # type: ignore[return-value]


class Graph:
    """A material's nodes, built by calls that return sockets."""

    def __init__(self, name: str) -> None:
        self.material = bpy.data.materials.new(name)
        self.material.use_nodes = True
        self.tree = self.material.node_tree
        self.tree.nodes.clear()
        self.output = self.node("ShaderNodeOutputMaterial")

    def node(self, kind: str, **settings: Any) -> Any:
        made = self.tree.nodes.new(kind)
        for name, value in settings.items():
            setattr(made, name, value)
        return made

    def join(self, source: Socket, sink: Socket) -> None:
        self.tree.links.new(source, sink)

    def math(self, operation: str, left: Socket, right: Socket | float) -> Socket:
        made = self.node("ShaderNodeMath", operation=operation)
        self.join(left, made.inputs[0])
        if isinstance(right, float | int):
            made.inputs[1].default_value = right
        else:
            self.join(right, made.inputs[1])
        return made.outputs[0]

    def attribute(self, name: str, gain: float = 1.0) -> Socket:
        """A point attribute, 0..1 after the gain."""
        made = self.node("ShaderNodeAttribute", attribute_name=name)
        scaled = self.node("ShaderNodeMath", operation="MULTIPLY", use_clamp=True)
        scaled.inputs[1].default_value = gain
        self.join(made.outputs["Fac"], scaled.inputs[0])
        return scaled.outputs[0]

    def noise(self, scale: float, low: float, high: float, detail: float = 4.0) -> Socket:
        """Soft noise of about `scale` lumps a metre, between two values."""
        made = self.node("ShaderNodeTexNoise")
        made.inputs["Scale"].default_value, made.inputs["Detail"].default_value = scale, detail
        self.join(self.node("ShaderNodeTexCoord").outputs["Object"], made.inputs["Vector"])
        return self.spread(made.outputs[0], (0.35, 0.65), (low, high))

    def spread(self, value: Socket, before: tuple[float, float], after: tuple[float, float]) -> Socket:
        made = self.node("ShaderNodeMapRange")
        for slot, number in zip((1, 2, 3, 4), (*before, *after), strict=True):
            made.inputs[slot].default_value = number
        self.join(value, made.inputs[0])
        return made.outputs[0]

    def mix(self, colour: Socket, other: str, share: Socket) -> Socket:
        """A colour moved towards another by a share."""
        made = self.node("ShaderNodeMix", data_type="RGBA")
        self.join(share, made.inputs[0])
        self.join(colour, made.inputs[6])
        made.inputs[7].default_value = (*linear(other), 1)
        return made.outputs[2]

    def scaled(self, colour: Socket, factor: Socket) -> Socket:
        made = self.node("ShaderNodeVectorMath", operation="SCALE")
        self.join(colour, made.inputs[0])
        self.join(factor, made.inputs["Scale"])
        return made.outputs[0]

    def flat(self, colour: str) -> Socket:
        made = self.node("ShaderNodeRGB")
        made.outputs[0].default_value = (*linear(colour), 1)
        return made.outputs[0]

    def picture(self, path: str, colours: str = "Non-Color") -> Socket:
        made = self.node("ShaderNodeTexImage", extension="EXTEND", interpolation="Cubic")
        made.image = bpy.data.images.load(path, check_existing=True)
        made.image.colorspace_settings.name = colours
        return made.outputs[0]

    def bump(self, height: Socket, strength: float, distance_m: float) -> Socket:
        made = self.node("ShaderNodeBump")
        made.inputs["Strength"].default_value, made.inputs["Distance"].default_value = strength, distance_m
        self.join(height, made.inputs["Height"])
        return made.outputs[0]

    def surface(self, colour: Socket, normal: Socket | None = None, **settings: Any) -> Any:
        """A principled surface; settings by input name, `_` for a space. Returns its node."""
        made = self.node("ShaderNodeBsdfPrincipled")
        for name, value in settings.items():
            made.inputs[name.replace("_", " ")].default_value = value
        self.join(colour, made.inputs["Base Color"])
        if normal is not None:
            self.join(normal, made.inputs["Normal"])
        self.join(made.outputs[0], self.output.inputs[0])
        return made


@dataclass(frozen=True)
class Complexion:
    """Colours of a skin, and what lies on it."""

    skin: str
    red: str
    """Where blood shows: cheeks, nose, ears."""
    dark: str
    """Under the eyes, in folds; freckles."""
    lips: str
    scatter_m: float = 0.010
    freckles: float = 0.1
    stubble: float = 0.0
    stubble_colour: str = "#3a302b"
    liner: float = 0.0
    """How dark the edge of the lids is drawn."""


def skin(look: Complexion, hair_root: str, age_years: float) -> Any:
    """Skin over the attributes red, dark, beard, scalp and lid of the mesh."""
    graph = Graph("skin")
    colour = graph.flat(look.skin)
    colour = graph.mix(
        colour, look.red, graph.math("MULTIPLY", graph.attribute("red", 0.55), graph.noise(70, 0.6, 1.1))
    )
    colour = graph.mix(colour, look.dark, graph.attribute("dark", 0.55))
    if look.stubble:
        share = graph.math("MULTIPLY", graph.attribute("beard", look.stubble), graph.noise(650, 0.25, 1.1, 2))
        colour = graph.mix(colour, look.stubble_colour, share)
    rooted = graph.math("MULTIPLY", graph.attribute("scalp", 1.0), graph.noise(420, 0.75, 1.0, 2))
    colour = graph.mix(colour, hair_root, rooted)
    lips = graph.picture(str(MPFB / "textures" / "mpfb_lips.jpg"))
    colour = graph.mix(colour, look.lips, graph.math("MULTIPLY", lips, graph.noise(220, 0.7, 0.95)))
    colour = graph.mix(colour, "#6e2a28", graph.picture(str(MPFB / "textures" / "mpfb_inside-mouth.jpg")))
    if look.liner:
        colour = graph.mix(colour, "#1a1210", graph.attribute("lid", look.liner))
    for scale, depth in ((28, 0.05), (130, 0.06), (420, 0.05)):
        colour = graph.scaled(colour, graph.noise(scale, 1 - depth, 1 + depth))
    spots = graph.node("ShaderNodeTexVoronoi")
    spots.inputs["Scale"].default_value = 300
    graph.join(graph.node("ShaderNodeTexCoord").outputs["Object"], spots.inputs["Vector"])
    spotted = graph.spread(spots.outputs[0], (0.05, 0.22), (look.freckles, 0.0))
    colour = graph.mix(colour, look.dark, graph.math("MULTIPLY", spotted, graph.noise(25, 0, 1)))
    pores = graph.node("ShaderNodeTexVoronoi")
    pores.inputs["Scale"].default_value = 1300
    graph.join(graph.node("ShaderNodeTexCoord").outputs["Object"], pores.inputs["Vector"])
    fine = graph.math(
        "ADD", graph.math("ADD", pores.outputs[0], graph.noise(320, 0, 1.0, 5)), graph.noise(90, 0, 0.02 * age_years, 6)
    )
    made = graph.surface(
        colour, graph.bump(fine, 0.14, 0.0006), Subsurface_Weight=1.0, Subsurface_Radius=(1.0, 0.36, 0.2),
        Subsurface_Scale=look.scatter_m, Subsurface_Anisotropy=0.7,
    )  # fmt: skip
    made.subsurface_method = "BURLEY"
    # Between the strands of a parting the scalp lies in their shade: no light glances off it.
    dull = graph.math("ADD", graph.math("MULTIPLY", graph.attribute("scalp", 1.5), -0.35), 0.35)
    graph.join(dull, made.inputs["Specular IOR Level"])
    moist = graph.math("SUBTRACT", graph.noise(60, 0.47, 0.6), graph.math("MULTIPLY", lips, 0.16))
    graph.join(moist, made.inputs["Roughness"])
    return graph.material


def strands(colour: str, grey: float = 0.0, rough: float = 0.32) -> Any:
    """Hair: a strand's own tone, darker roots, a share of grey ones, one soft highlight."""
    graph = Graph("strands")
    info = graph.node("ShaderNodeHairInfo")
    tone = graph.flat(colour)
    if grey:
        tone = graph.mix(tone, "#8f8a85", graph.math("LESS_THAN", info.outputs["Random"], grey))
    lit = graph.math(
        "MULTIPLY",
        graph.spread(info.outputs["Random"], (0, 1), (0.7, 1.3)),
        graph.spread(info.outputs["Intercept"], (0, 1), (0.65, 1.25)),
    )
    tone = graph.scaled(tone, lit)
    through, shine = (graph.node("ShaderNodeBsdfHair", component=part) for part in ("Transmission", "Reflection"))
    through.inputs["RoughnessU"].default_value, through.inputs["RoughnessV"].default_value = 0.35, 0.6
    shine.inputs["RoughnessU"].default_value, shine.inputs["RoughnessV"].default_value = rough, 0.8
    shine.inputs["Offset"].default_value = math.radians(-5)
    graph.join(tone, through.inputs[0])
    glint = graph.node("ShaderNodeMix", data_type="RGBA")
    glint.inputs[0].default_value, glint.inputs[7].default_value = 0.35, (0.7, 0.66, 0.62, 1)
    graph.join(tone, glint.inputs[6])
    graph.join(glint.outputs[2], shine.inputs[0])
    matt = graph.node("ShaderNodeBsdfDiffuse")
    graph.join(tone, matt.inputs[0])
    body, whole = graph.node("ShaderNodeMixShader"), graph.node("ShaderNodeMixShader")
    body.inputs[0].default_value, whole.inputs[0].default_value = 0.25, 0.26
    for sink, source in zip(
        (body.inputs[1], body.inputs[2], whole.inputs[1], whole.inputs[2]),
        (matt.outputs[0], through.outputs[0], body.outputs[0], shine.outputs[0]),
        strict=True,
    ):
        graph.join(source, sink)
    graph.join(whole.outputs[0], graph.output.inputs[0])
    return graph.material


def eye() -> Any:
    """An eyeball coloured by the attribute `tone`, wet."""
    graph = Graph("eye")
    tone = graph.node("ShaderNodeAttribute", attribute_name="tone").outputs["Color"]
    graph.surface(tone, Roughness=0.06, Specular_IOR_Level=0.5, Subsurface_Weight=0.04, Subsurface_Scale=0.003)
    return graph.material


def enamel(tone: str) -> Any:
    """Teeth: a little translucent, smooth and wet, not all of one white."""
    graph = Graph("enamel")
    colour = graph.scaled(graph.flat(tone), graph.noise(160, 0.93, 1.05, 2))
    graph.surface(
        colour, Roughness=0.17, Specular_IOR_Level=0.5, Subsurface_Weight=0.5, Subsurface_Scale=0.0025,
        Subsurface_Radius=(1.0, 0.85, 0.7),
    )  # fmt: skip
    return graph.material


def gum() -> Any:
    """Gums: moist and rosy."""
    graph = Graph("gum")
    colour = graph.scaled(graph.flat("#a5605e"), graph.noise(400, 0.85, 1.1, 3))
    graph.surface(colour, Roughness=0.3, Subsurface_Weight=0.6, Subsurface_Scale=0.003)
    return graph.material


def plain(colour: str, rough: float = 0.25, specular: float = 0.5) -> Any:
    """Tongue, glasses, studs."""
    graph = Graph("plain")
    graph.surface(graph.flat(colour), Roughness=rough, Specular_IOR_Level=specular)
    return graph.material


@dataclass(frozen=True)
class Fabric:
    """A cloth: its colour, what is woven into it, how it shines."""

    colour: str
    stripe: str | None = None
    stripe_m: float = 0.012
    slant: float = 0.8
    rough: float = 0.8
    weave: float = 0.12


def cloth(fabric: Fabric) -> Any:
    """Woven or knitted cloth, striped where wanted."""
    graph = Graph("cloth")
    colour = graph.flat(fabric.colour)
    if fabric.stripe:
        wave = graph.node("ShaderNodeTexWave", wave_type="BANDS", bands_direction="X")
        wave.inputs["Scale"].default_value = 0.314 / fabric.stripe_m
        wave.inputs["Distortion"].default_value = 0.0
        place = graph.node("ShaderNodeMapping")
        place.inputs["Rotation"].default_value = (0, fabric.slant, 0)
        graph.join(graph.node("ShaderNodeTexCoord").outputs["Object"], place.inputs["Vector"])
        graph.join(place.outputs[0], wave.inputs["Vector"])
        colour = graph.mix(colour, fabric.stripe, graph.spread(wave.outputs["Fac"], (0.62, 0.7), (0, 1)))
    colour = graph.scaled(colour, graph.noise(900, 1 - fabric.weave, 1 + fabric.weave, 2))
    colour = graph.scaled(colour, graph.noise(14, 0.93, 1.05, 3))
    normal = graph.bump(graph.math("ADD", graph.noise(900, 0, 1, 2), graph.noise(24, 0, 3.0, 2)), 0.3, 0.0006)
    graph.surface(
        colour, normal, Roughness=fabric.rough, Specular_IOR_Level=0.2, Sheen_Weight=0.12, Sheen_Roughness=0.5
    )
    return graph.material
