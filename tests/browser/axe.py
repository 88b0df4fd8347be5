"""What axe, the checker of accessibility, finds on an open page."""

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

COLOR_RULES = ["color-contrast", "link-in-text-block"]  # what a scheme can change
OFTEN = 3  # as often as axe may be unable to tell about a look before it is asked no more

# The look of a text is what axe judges it by, where it stands among it: all the way, or in code and formulas, of which
# there is most, the last two steps. Three texts of each look that was not judged before are marked.
MARK = """([judged, where]) => {
  const known = new Set(judged), marked = new Map(), grounds = new Map(), places = new Map()
  const remembered = (memory, make) => (part) => {
    if (part && !memory.has(part)) memory.set(part, make(part))
    return memory.get(part) ?? ""
  }
  const ground = remembered(grounds, (part) => {
    const { backgroundColor, backgroundImage, opacity } = getComputedStyle(part)
    const clear = backgroundColor === "rgba(0, 0, 0, 0)" && backgroundImage === "none"
    return (clear ? ground(part.parentElement) : backgroundColor + backgroundImage) + (opacity < 1 ? opacity : "")
  })
  const named = (part) => `${part.localName}.${part.getAttribute("class")}`
  const place = remembered(places, (part) =>
    part.closest("pre, .katex") ? `${named(part.parentElement)} > ${named(part)}`
      : `${place(part.parentElement)} > ${named(part)}`)
  const parts = new Set(document.querySelectorAll("a[href]"))
  const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT)
  while (texts.nextNode()) if (texts.currentNode.data.trim()) parts.add(texts.currentNode.parentElement)
  for (const part of parts) {
    if (part instanceof SVGElement || part instanceof MathMLElement || !part.closest(where)) continue // axe judges none
    const { color, fontSize, fontWeight, textDecorationLine, textShadow } = getComputedStyle(part)
    const letters = [fontSize, fontWeight, textDecorationLine, textShadow].join(" ")
    const around = getComputedStyle(part.parentElement).color
    const look = `${color} in ${around} on ${ground(part)}, ${letters} ${place(part)}`
    const like = marked.get(look) ?? []
    if (known.has(look) || like.length === 3 || !part.checkVisibility({ visibilityProperty: true })) continue
    marked.set(look, [...like, part])
    part.setAttribute("data-judge", look)
  }
}"""

# No rule of axe looks into what is left out here, where no look is new: colored words of code, the letters of a formula
# and a drawing, which is one picture to those who hear it. Their size stays. They are nine tenths of a chapter.
LEAVE_OUT = """() => {
  const plain = (block) => !block.querySelector("a, button, input, [id], [role], [tabindex], [title], [lang]") &&
    ![...block.querySelectorAll("*")].some((part) =>
      [...part.attributes].some(({ name }) => name === "data-judge" || name.startsWith("aria-")))
  const boxes = [...document.querySelectorAll("article .katex-html[aria-hidden=true] .katex-base")].filter(plain)
  const sizes = boxes.map((box) => [box.scrollWidth, box.offsetHeight])
  boxes.forEach((box, i) => {
    const empty = document.createElement("span")
    empty.style.cssText = `display: inline-block; width: ${sizes[i][0]}px; height: ${sizes[i][1]}px`
    box.replaceChildren(empty)
  })
  for (const letters of document.querySelectorAll("article :is(pre > code, math)"))
    if (plain(letters)) letters.textContent = letters.textContent
  for (const drawing of document.querySelectorAll("article svg[role=img]"))
    if (!drawing.querySelector("a, [role], [tabindex]")) drawing.replaceChildren()
}"""

RUN = """async ([where, options]) => {
  const judged = [...document.querySelectorAll("[data-judge]")]
  axe.configure({ rules: [
    { id: "color-contrast", selector: "[data-judge]" },
    { id: "link-in-text-block", selector: "a[data-judge]" },
  ] })
  const { violations, incomplete } = await axe.run(where, {
    resultTypes: ["violations", "incomplete"], elementRef: true, preload: false, ...options })
  const unsure = new Set(incomplete.flatMap(({ nodes }) => nodes.map(({ element }) => element.dataset.judge)))
  const sure = Object.fromEntries(judged.map((part) => [part.dataset.judge, !unsure.has(part.dataset.judge)]))
  for (const part of judged) part.removeAttribute("data-judge")
  const folded = ({ element }) => element.closest("details:not([open]) > :not(summary)") // where nobody can scroll
  const faults = violations.flatMap(({ id, nodes }) =>
    nodes.filter((node) => !folded(node)).slice(0, 4)
      .map(({ target, failureSummary }) => `${id} ${target[0]}: ${failureSummary}`))
  return [faults, sure]
}"""


@dataclass
class Judged:
    """The looks of texts that axe has judged in a scheme, and how often it could not tell about the others."""

    sure: set[str] = field(default_factory=set)
    unsure: Counter[str] = field(default_factory=Counter)

    def known(self) -> list[str]:
        """Return the looks about which axe need not be asked again."""
        return [*self.sure, *(look for look, times in self.unsure.items() if times >= OFTEN)]

    def add(self, looks: dict[str, bool]) -> None:
        """Note about which looks axe was sure."""
        self.sure |= {look for look, sure in looks.items() if sure}
        self.unsure.update(look for look, sure in looks.items() if not sure)


def scheme(page: Any, color: str) -> None:
    """Change the system's colors, and wait until the theme has changed its own."""
    page.emulate_media(color_scheme=color)
    page.wait_for_selector(f"body[data-md-color-scheme={'slate' if color == 'dark' else 'default'}]")


def unread(page: Any, judged: Judged, where: str = "html", **options: Any) -> list[str]:
    """Return what axe finds on a page, texts that are hard to read only among those of looks not `judged` yet.

    It changes the page: what axe has no rule for is taken out of it.
    """
    from axe_core_python.base import AXE_SCRIPT

    page.evaluate(MARK, [judged.known(), where])
    page.evaluate(LEAVE_OUT)
    page.evaluate(f"() => {{ if (!window.axe) {{ {AXE_SCRIPT} }} }}")
    faults, sure = page.evaluate(RUN, [where, options])
    judged.add(sure)
    return faults


def unread_in_both_schemes(page: Any, judged: dict[str, Judged], where: str = "html") -> list[str]:
    """Return what is hard to read in light colors, and all that axe finds in dark ones, as `unread` does."""
    faults = [f"in light colors, {fault}" for fault in unread(page, judged["light"], where, runOnly=COLOR_RULES)]
    scheme(page, "dark")
    return faults + [f"in dark colors, {fault}" for fault in unread(page, judged["dark"], where)]
