"""Write a figure in fewer bytes, without moving a line or changing a color."""

import base64
import io
import re

REFERENCE = re.compile(r"#([\w.-]+)")
GROUP = re.compile(r"<g\b([^>]*?)(/?)>|</g>")
PATH = re.compile(r'\bd="([MLCQz\d\s.-]*)"')  # as Matplotlib writes it
STEP = re.compile(r"([MLCQz])([^MLCQz]*)")
COORDINATES = {"M": 2, "L": 2, "Q": 4, "C": 6, "z": 0}
LENGTHS = re.compile(r'(?<= )(x|y|width|height|transform)="([^"]*)"')
STYLE = re.compile(r'\bstyle="([^"]*)"')
PICTURE = re.compile(r'(?<="data:image/png;base64,)[^"]+')
HUNDREDTH = 100


def smaller(svg: str) -> str:
    """Return the same figure in about half the bytes."""
    # Only an id that something refers to is needed; those of the style sheet count as well.
    used = {*REFERENCE.findall(svg)}
    svg = re.sub(r' version="[^"]*"| type="text/css"', "", svg)
    svg = re.sub(r' transform="rotate\(-0 [^"]*\)"', "", svg)
    svg = re.sub(r' id="([^"]+)"', lambda m: m[0] if m[1] in used else "", svg)
    svg = _ungrouped(svg)
    svg = PATH.sub(lambda m: f'd="{path(m[1])}"', svg)
    svg = LENGTHS.sub(lambda m: f'{m[1]}="{_number(m[2])}"', svg)
    svg = STYLE.sub(lambda m: re.sub(r"([:;]) +", r"\1", m[0]), svg)
    svg = PICTURE.sub(lambda m: picture(re.sub(r"\s+", "", m[0])), svg)
    # Between the parts of a text white space is drawn.
    return re.sub(r">\s*\n\s*(?=<(?!tspan|/text))", ">", svg)


def _ungrouped(svg: str) -> str:
    """Take away the groups that say nothing of what is in them, and empty ones."""
    # For each open group, whether it has attributes and stays: its end goes the way of its begin.
    stays: list[bool] = []

    def keep_or_drop(match: re.Match) -> str:
        if match[0] == "</g>":
            return match[0] if stays.pop() else ""
        # One that ends in itself holds nothing.
        if match[2]:
            return ""
        stays.append(bool(match[1].strip()))
        return match[0] if stays[-1] else ""

    return GROUP.sub(keep_or_drop, svg)


def path(line: str) -> str:
    """Return a path with each point relative to the last one, in hundredths: the same points, in half the letters."""
    here, start = (0, 0), (0, 0)
    previous = ""
    commands: list[str] = []
    for command, numbers in STEP.findall(line):
        coordinates = _hundredths(numbers)
        # A path of any other form stays as it is.
        if len(coordinates) != COORDINATES[command]:
            return line
        # All points of one curve are relative to where it begins.
        steps = "".join(_signed(n - here[i % 2]) for i, n in enumerate(coordinates))
        # SVG repeats a command that is left out, and draws lines behind a move.
        repeats = command == previous or (command == "L" and previous == "M")
        commands.append(steps if repeats and coordinates else command.lower() + steps.lstrip())
        # A path that is closed goes on from where it began.
        here = (coordinates[-2], coordinates[-1]) if coordinates else start
        if command == "M":
            start = here
        previous = command
    return "".join(commands)


def _hundredths(numbers: str) -> list[int]:
    # Whole numbers, since differences of rounded floats would let a path drift.
    return [round(float(number) * HUNDREDTH) for number in numbers.split()]


def _signed(hundredths: int) -> str:
    """Return a step with what divides it from the one before: its minus sign, or a space."""
    number = _number(f"{hundredths / HUNDREDTH:.2f}")
    return number if number.startswith("-") else f" {number}"


def _number(text: str) -> str:
    """Return numbers without the zeros that say nothing."""
    text = re.sub(r"(\.\d*?)0+(?!\d)", r"\1", text)
    text = re.sub(r"\.(?!\d)", "", text)
    return re.sub(r"(?<![\d.])0(?=\.\d)", "", text)


def picture(encoded: str) -> str:
    """Return a PNG of the same pixels in fewer bytes: Matplotlib spends four on each, and a colormap has 256 colors."""
    import numpy as np
    from PIL import Image

    pixels = np.array(Image.open(io.BytesIO(base64.b64decode(encoded))).convert("RGBA"))
    # Seen as one whole number of four bytes, a color is found by a sort.
    colors, place = np.unique(pixels.view(np.uint32), return_inverse=True)
    colors = colors.view(np.uint8).reshape(-1, 4)
    is_opaque = (colors[:, 3] == 255).all()
    options = {}
    if len(colors) <= 256:
        # A byte for each pixel, its place in a palette; a PNG has the opacity of each color beside that.
        image = Image.fromarray(place.reshape(pixels.shape[:2]).astype(np.uint8)).convert("P")
        image.putpalette(colors[:, :3].tobytes())
        if not is_opaque:
            options["transparency"] = colors[:, 3].tobytes()
    else:
        image = Image.fromarray(pixels[:, :, :3] if is_opaque else pixels)
    buffer = io.BytesIO()
    image.save(buffer, "PNG", optimize=True, **options)
    return min(encoded, base64.b64encode(buffer.getvalue()).decode(), key=len)
