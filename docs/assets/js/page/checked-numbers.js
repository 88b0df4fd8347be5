// A number that the build has checked says what it is, where it was computed, and leads to the code.
//
// The first number of a section can be reached by Tab, the others from it by the arrow keys.

import { make } from "../kit/controls.js"

const KINDS = /** @type {const} */ ({
  cite: "Quoted, and compared with the bibliography: ",
  "<": "A bound, checked when this page was built: smaller than ",
  ">": "A bound, checked when this page was built: larger than ",
})

/** @param {string} expression @returns {[string, string]} what kind of number, and what stands behind it */
const read = (expression) => {
  const [first] = expression.split(" ", 1)
  for (const [operator, words] of Object.entries(KINDS)) {
    if (first === operator || first === `${operator}=`) return [words, expression.slice(first.length).trim()]
  }
  return ["Computed when this page was built, and compared: ", expression]
}

/** The address of a page of the site, from any other. @param {string} path */
const address = (path) => {
  const base = JSON.parse(document.getElementById("__config")?.textContent ?? "{}").base ?? "."
  return new URL(`${base}/${path}`, location.href).href
}

/** @param {HTMLElement} number */
const content = (number) => {
  const [words, behind] = read(number.dataset.expression ?? "")
  const quoted = number.dataset.expression?.startsWith("cite ")
  const parts = [make("span", {}, [words]), quoted ? behind : make("code", {}, [behind])]
  const [key] = behind.split(/[\s,]/, 1)
  /** @type {Array<[string, string]>} */
  const links = [["How numbers are checked", address("start/proof/")]]
  if (quoted) links.unshift(["The source", address(`reference/bibliography/#${key}`)])
  else if (number.dataset.code) links.unshift(["The code", `#${number.dataset.code}`])
  const line = make("span", { class: "checked-links" })
  for (const [label, href] of links) line.append(make("a", { href }, [label]))
  return [...parts, line]
}

// A number inside a link, or in the title of a fold, is part of what one presses.
const ASKED = ".checked:not(:is(a, summary) *)"

const GAP = 6 // pixels between a number and its box

const box = make("span", { class: "checked-box", role: "note", id: "checked-box" })
/** @type {HTMLElement | null} */
let shown = null

const hide = () => {
  shown?.removeAttribute("aria-expanded")
  shown = null
  box.remove()
}

/** @param {HTMLElement} number */
const show = (number) => {
  if (shown === number) return
  hide()
  shown = number
  box.replaceChildren(...content(number))
  number.after(box) // so that Tab leads from the number to its links
  number.setAttribute("aria-expanded", "true")
  place(number)
}

/** Below its number, or above it where the screen ends, and never beyond an edge. @param {HTMLElement} number */
const place = (number) => {
  const { left, top, bottom } = number.getClientRects()[0]
  const { width, height } = box.getBoundingClientRect()
  const { clientWidth, clientHeight } = document.documentElement
  const below = bottom + GAP
  box.style.left = `${Math.max(GAP, Math.min(left, clientWidth - width - GAP))}px`
  box.style.top = `${below + height < clientHeight ? below : top - height - GAP}px`
}

/** @param {HTMLElement} number @param {number} by @param {AbortSignal} signal */
const move = (number, by, signal) => {
  if (signal.aborted) return
  const all = /** @type {HTMLElement[]} */ ([...document.querySelectorAll(ASKED)])
  const near = all.filter((each) => each.checkVisibility())
  near[near.indexOf(number) + by]?.focus()
}

let life = new AbortController()

export default () => {
  life.abort()
  life = new AbortController()
  const { signal } = life
  const parts = `h1, h2, h3, ${ASKED}`
  let first = true
  for (const part of document.querySelectorAll(`.md-content :is(${parts})`)) {
    const number = part.matches(ASKED)
    if (number) {
      part.setAttribute("tabindex", first ? "0" : "-1")
      part.setAttribute("role", "button")
      const formula = part.querySelector("math")
      if (formula) part.setAttribute("aria-label", formula.textContent)
    }
    first = !number
  }
  const on = (/** @type {EventTarget | null} */ target) =>
    target instanceof Element ? /** @type {HTMLElement | null} */ (target.closest(ASKED)) : null
  const inside = (/** @type {EventTarget | null} */ target) => target instanceof Node && box.contains(target)
  document.addEventListener(
    "click",
    ({ target }) => {
      const number = on(target)
      if (number) show(number)
      else if (!inside(target) || /** @type {Element} */ (target).closest("a")) hide()
    },
    { signal },
  )
  document.addEventListener(
    "focusin",
    ({ target }) => {
      const number = on(target)
      if (number) show(number)
      else if (!inside(target)) hide()
    },
    { signal },
  )
  document.addEventListener("scroll", () => shown && place(shown), { signal, passive: true })
  document.addEventListener(
    "keydown",
    (event) => {
      const number = on(event.target)
      if (event.key === "Escape") {
        if (shown && inside(event.target)) shown.focus()
        hide()
      } else if (number && ["ArrowRight", "ArrowLeft"].includes(event.key)) {
        event.preventDefault()
        move(number, event.key === "ArrowRight" ? 1 : -1, signal)
      } else if (number && ["Enter", " "].includes(event.key)) {
        event.preventDefault()
        show(number)
      }
    },
    { signal },
  )
}
