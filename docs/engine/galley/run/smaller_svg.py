"""Write a figure in fewer bytes, without moving a line or changing a color."""

import base64
import io
import re

REFERENCE = re.compile(r"#([\w.-]+)")
GROUP = re.compile(r"<g\b([^>]*?)(/?)>|</g>")
PATH = re.compile(r'\bd="([MLCQz\d\s.-]*)"')  # as Matplotlib writes it
STEP = re.compile(r"([MLCQz])([^MLCQz]*)")
POINTS = {"M": 2, "L": 2, "Q": 4, "C": 6, "z": 0}
LENGTHS = re.compile(r'(?<= )(x|y|width|height|transform)="([^"]*)"')
STYLE = re.compile(r'\bstyle="([^"]*)"')
PICTURE = re.compile(r'(?<="data:image/png;base64,)[^"]+')
HUNDREDTH = 100


def smaller(svg: str) -> str:
    """Return the same figure in about half the bytes."""
    used = {*REFERENCE.findall(svg)}
    svg = re.sub(r' version="[^"]*"| type="text/css"', "", svg)
    svg = re.sub(r' transform="rotate\(-0 [^"]*\)"', "", svg)
    svg = re.sub(r' id="([^"]+)"', lambda m: m[0] if m[1] in used else "", svg)
    svg = _ungrouped(svg)
    svg = PATH.sub(lambda m: f'd="{path(m[1])}"', svg)
    svg = LENGTHS.sub(lambda m: f'{m[1]}="{_number(m[2])}"', svg)
    svg = STYLE.sub(lambda m: re.sub(r"([:;]) +", r"\1", m[0]), svg)
    svg = PICTURE.sub(lambda m: picture(re.sub(r"\s+", "", m[0])), svg)
    return re.sub(r">\s*\n\s*(?=<(?!tspan|/text))", ">", svg)


def _ungrouped(svg: str) -> str:
    """Take away the groups that say nothing of what is in them, and empty ones."""
    stays: list[bool] = []

    def one(match: re.Match) -> str:
        if match[0] == "</g>":
            return match[0] if stays.pop() else ""
        if match[2]:
            return ""
        stays.append(bool(match[1].strip()))
        return match[0] if stays[-1] else ""

    return GROUP.sub(one, svg)


def path(line: str) -> str:
    """Return a path with each point told from the last one, in hundredths: the same points, in half the letters."""
    here, start, before, commands = (0, 0), (0, 0), "", []
    for command, numbers in STEP.findall(line):
        points = _points(numbers)
        if len(points) != POINTS[command]:
            return line
        steps = "".join(_signed(n - here[i % 2]) for i, n in enumerate(points))
        again = command == before or (command == "L" and before == "M")  # it need not be said
        commands.append(steps if again and points else command.lower() + steps.lstrip())
        here = (points[-2], points[-1]) if points else start
        start, before = here if command == "M" else start, command
    return "".join(commands)


def _points(numbers: str) -> list[int]:
    return [round(float(number) * HUNDREDTH) for number in numbers.split()]


def _signed(hundredths: int) -> str:
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
    colors, place = np.unique(pixels.view(np.uint32), return_inverse=True)
    colors = colors.view(np.uint8).reshape(-1, 4)
    see_through = {"transparency": colors[:, 3].tobytes()} if (colors[:, 3] < 255).any() else {}
    if len(colors) <= 256:
        image = Image.fromarray(place.reshape(pixels.shape[:2]).astype(np.uint8)).convert("P")
        image.putpalette(colors[:, :3].tobytes())
    else:
        image, see_through = Image.fromarray(pixels if see_through else pixels[:, :, :3]), {}
    buffer = io.BytesIO()
    image.save(buffer, "PNG", optimize=True, **see_through)
    return min(encoded, base64.b64encode(buffer.getvalue()).decode(), key=len)
