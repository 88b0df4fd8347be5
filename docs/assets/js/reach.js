// What scrolls inside itself can be reached with the keyboard, and what has no text gets a name.

const SCROLLERS = ".md-typeset__scrollwrap, .katex-display, .drawn-svg, .md-typeset pre > code"

const reach = (element) => {
  if (element.scrollWidth > element.clientWidth) element.tabIndex = 0
  else element.removeAttribute("tabindex")
}

const resized = new ResizeObserver((entries) => entries.forEach((entry) => reach(entry.target)))

const name = (root) => {
  for (const mark of root.querySelectorAll(".md-annotation__index:not([aria-label])")) {
    const number = mark.querySelector("[data-md-annotation-id]")?.dataset.mdAnnotationId
    mark.setAttribute("aria-label", `Annotation ${number ?? ""}`.trim())
  }
}

const added = new MutationObserver(() => name(document.body))

document$.subscribe(() => {
  resized.disconnect()
  document.querySelectorAll(SCROLLERS).forEach((element) => resized.observe(element))
  name(document.body)
  added.disconnect()
  added.observe(document.querySelector(".md-content") ?? document.body, { childList: true, subtree: true })
})
