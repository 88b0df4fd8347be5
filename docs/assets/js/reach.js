// What scrolls inside itself can be reached with the keyboard, what the theme leaves without a name gets one, and a link
// leads to its place.

const SCROLLERS =
  ".md-typeset__scrollwrap, .katex-display, .drawn-svg, .md-typeset pre > code, .formula:not(.display) .katex-base"

const reach = (element) => {
  const room = element.matches(".katex-base") ? element.closest("p, li, td, th, dd, h1, h2, h3, h4, article") : element
  const wide = element.scrollWidth > room.clientWidth
  element.classList.toggle("wide", wide)
  if (wide) element.tabIndex = 0
  else element.removeAttribute("tabindex")
}

const name = () => {
  document.querySelector(".md-search")?.setAttribute("aria-label", "Search")
  // Every copy button and every level of the contents is a <nav>: too many landmarks to be of use.
  document.querySelectorAll(".md-code__nav:not([role]), .md-nav .md-nav:not([role])").forEach((nav) => {
    nav.setAttribute("role", "none")
    for (const attribute of ["aria-label", "aria-labelledby", "aria-expanded"]) nav.removeAttribute(attribute)
  })
  document.querySelectorAll("aside.md-annotation:not([role])").forEach((aside) => aside.setAttribute("role", "note"))
  document.querySelectorAll(".md-annotation__index:not([aria-label])").forEach((mark) => {
    const number = mark.querySelector("[data-md-annotation-id]")?.dataset.mdAnnotationId
    mark.setAttribute("aria-label", `Annotation ${number ?? ""}`.trim())
  })
}

// Copying a session copies what was typed, without prompts and results.
const typed = (session) => {
  const lines = session.querySelector("code").textContent.split("\n")
  session.dataset.copy = lines
    .filter((line) => /^(>>>|\.\.\.)( |$)/.test(line))
    .map((line) => line.slice(4))
    .join("\n")
}

// If the reader clicks while a page still scrolls, the theme notes the old page's place for the new address, and goes
// there.
let wanted = ""
addEventListener(
  "click",
  ({ target }) => {
    wanted = target.closest?.("a")?.hash ?? ""
    if (wanted && wanted === location.hash) open() // no hash changes
  },
  true,
)
addEventListener("popstate", () => (wanted = ""))

// Who follows a link into a section of a chapter's depth finds it open.
const open = () => {
  const place = location.hash && document.getElementById(decodeURIComponent(location.hash.slice(1)))
  const closed = []
  for (let fold = place && place.closest("details"); fold; fold = fold.parentElement.closest("details")) {
    if (!fold.open) closed.push(fold)
  }
  closed.forEach((fold) => (fold.open = true))
  if (closed.length) place.scrollIntoView()
}
addEventListener("hashchange", open)

const arrive = () => {
  if (wanted && history.state !== null) location.replace(wanted)
  wanted = ""
}

const resized = new ResizeObserver(() => document.querySelectorAll(SCROLLERS).forEach(reach))
const added = new MutationObserver(name)

document$.subscribe(() => {
  resized.disconnect()
  added.disconnect()
  document.querySelectorAll(".md-content__inner, .md-content details").forEach((element) => resized.observe(element))
  added.observe(document.querySelector(".md-content"), { childList: true, subtree: true })
  document.querySelectorAll(".language-pycon").forEach(typed)
  name()
  arrive()
  open()
})
