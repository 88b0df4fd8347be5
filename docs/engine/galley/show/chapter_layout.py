"""Set a chapter's form: its answer, the chips that jump, and below `## Depth` sections that open by themselves.

In Markdown these are a paragraph that begins with **In short.**, a line of links, and headings ###, which read well
where nothing is folded.
"""

from xml.etree.ElementTree import Element, SubElement

CHIPS = ["Use it", "See it", "Prove it", "Measure it", "Copy it"]
ANSWER, DEPTH = "In short.", "Depth"


def form(root: Element) -> None:
    """Mark the answer and the chips, and fold what lies below the heading Depth."""
    for element in root:
        if element.tag == "p" and len(element):
            if (element[0].text or "") == ANSWER and element[0].tag == "strong":
                element.set("class", "answer")
            elif [link.text for link in element] == CHIPS:
                _chips(element)
    starts = [n for n, element in enumerate(root) if element.tag == "h2" and element.text == DEPTH]
    if starts:
        _fold(root, starts[0] + 1)


def _chips(line: Element) -> None:
    """Take the dots from between the links: the style sets these apart as buttons."""
    line.set("class", "chips")
    line.text = ""
    for link in line:
        link.tail = " "


def _fold(root: Element, start: int) -> None:
    """Put each heading ### with what follows it into a fold of its own, up to the next ## or the end."""
    # A list of its own, since the elements are taken from the root one after another.
    below = list(root)[start:]
    ends = (n for n, element in enumerate(below) if element.tag == "h2")
    below = below[: next(ends, len(below))]
    arranged: list[Element] = []
    fold: Element | None = None
    for element in below:
        root.remove(element)
        if element.tag == "h3":
            fold = Element("details", {"class": "depth"})
            SubElement(fold, "summary").append(element)
            # A click on the summary opens the fold, so that a link in it could not be followed.
            for link in element.findall("a[@class='headerlink']"):
                element.remove(link)
                fold.append(link)
            arranged.append(fold)
        elif fold is None:
            arranged.append(element)
        else:
            fold.append(element)
    root[start:start] = arranged
