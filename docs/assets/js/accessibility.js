// What scrolls inside itself can be reached with the keyboard, what the theme leaves without a name gets one, a link
// leads to its place, and a button copies a file.

const SCROLLERS =
  ".md-typeset__scrollwrap, .katex-display, .drawn-svg, .md-typeset pre > code, .formula:not(.display) .katex-base"

const isWide = (element) => {
  const room = element.matches(".katex-base") ? element.closest("p, li, td, th, dd, h1, h2, h3, h4, article") : element
  return element.scrollWidth > room.clientWidth
}

// All are read before one is written: then the browser lays out the page once. What it has not laid out yet, in a
// closed fold or far from the screen, waits until it has.
const reach = (elements) => {
  const there = [...elements].filter((element) => element.checkVisibility({ contentVisibilityAuto: true }))
  const found = there.map((element) => [element, isWide(element)])
  for (const [element, wide] of found) {
    element.classList.toggle("wide", wide)
    if (!wide) element.removeAttribute("tabindex")
    else if (!element.hasAttribute("tabindex")) element.tabIndex = 0
  }
}

const name = () => {
  // The theme takes it from code where no pointer hovers, when it adds the copy button.
  document.querySelectorAll(".wide:not([tabindex])").forEach((element) => (element.tabIndex = 0))
  document.querySelector(".md-search")?.setAttribute("aria-label", "Search")
  document.querySelector(".md-tags")?.setAttribute("aria-label", "Tags")
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

// A whole file is copied as it lies on the site; where that cannot be, the reader is led to it.
const copyFile = async (button) => {
  // A button with an icon says so by its name, and by the theme's tooltip or its message.
  const icon = button.querySelector("svg")
  const [said, label] = [button.textContent, button.getAttribute("aria-label")]
  const tip = () => document.getElementById(button.getAttribute("aria-describedby"))?.firstElementChild
  try {
    const text = fetch(button.dataset.copies).then((answer) => {
      if (!answer.ok) throw new Error(answer.statusText)
      return answer.text()
    })
    const typed = text.then((file) => new Blob([file], { type: "text/plain" }))
    await navigator.clipboard.write([new ClipboardItem({ "text/plain": typed })])
    if (!icon) button.textContent = "Copied"
    else {
      button.setAttribute("aria-label", "Copied")
      if (tip()) tip().textContent = "Copied"
      else alert$.next("Copied")
    }
    button.classList.add("copied")
    setTimeout(() => {
      if (!icon) button.textContent = said
      else if (tip()) tip().textContent = label
      button.setAttribute("aria-label", label)
      button.classList.remove("copied")
    }, 2000)
  } catch {
    location.assign(button.dataset.copies)
  }
}
addEventListener("click", ({ target }) => {
  const button = target.closest?.("[data-copies]")
  if (button && !button.classList.contains("copied")) copyFile(button)
})

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

// The index of the search comes when somebody is about to search; on a disk it is there. The worker that reads it
// lies in assets/js.
const { search, translations } = JSON.parse(document.getElementById("__config").textContent)
const worker = new URL(search, location.href)
const fetchIndex = () => {
  const [rel, href, as] = ["prefetch", new URL("../../search/index.json", worker), "fetch"]
  document.head.append(Object.assign(document.createElement("link"), { rel, href, as }))
}
if (worker.protocol !== "file:" && worker.pathname.endsWith("/assets/js/search.js")) {
  document.forms.search?.query.addEventListener("focus", fetchIndex, { once: true })
}

// Until the first answer the theme says that one should type, under what is typed.
document.forms.search?.query.addEventListener("keyup", ({ target }) => {
  const meta = document.querySelector(".md-search-result__meta")
  const isAsked = target.value.trim() && meta.textContent === translations["search.result.placeholder"]
  if (isAsked) meta.textContent = "Searching …"
})

// Does something once for all that happens until the next frame.
const soon = (act) => {
  let met = new Set()
  const forward = () => {
    const all = met
    met = new Set()
    act(all)
  }
  return (what) => {
    if (!met.size) requestAnimationFrame(forward)
    met.add(what)
  }
}

const appeared = soon(reach)
document.addEventListener(
  "contentvisibilityautostatechange",
  ({ target, skipped }) => {
    if (!skipped && target.matches(SCROLLERS)) appeared(target)
  },
  true,
)

const resized = new ResizeObserver(() => reach(document.querySelectorAll(SCROLLERS)))
const added = new MutationObserver(soon(name))

document$.subscribe(() => {
  resized.disconnect()
  added.disconnect()
  document.querySelectorAll(".md-content__inner, .md-content details").forEach((element) => resized.observe(element))
  const content = document.querySelector(".md-content")
  added.observe(content, { childList: true, subtree: true, attributeFilter: ["tabindex"] })
  document.querySelectorAll(".language-pycon").forEach(typed)
  name()
  arrive()
  open()
})
