// A box for words and buttons for marks above a list or a table, which stands whole without this script.
//
// The element says what is in it: `data-items` names the entries (rows of a table unless said; a heading stands for all
// up to the next one; with `data-below` those after the element), `data-facets` what they are marked by, as JSON: a
// column of the table, or `data-…` of an entry.

import { make } from "./kit/controls.js"

/** `one`: an entry has one mark; `byName`: the buttons stand in the order of their names.
 * @typedef {{ name: string, column?: number, one?: boolean, plural?: boolean, byName?: boolean }} Facet */
/** @typedef {{ parts: HTMLElement[], words: string, marks: Map<string, string[]> }} Item */
/** @typedef {Facet & { buttons: HTMLButtonElement[] }} Choice */

const HEADING = /^H[1-6]$/

/** @param {string} text */
const listed = (text) =>
  text
    .split(",")
    .map((mark) => mark.trim())
    .filter(Boolean)

/** Words as they are compared: 10,000 is 10000. @param {string} text */
const plain = (text) => text.toLowerCase().replace(/(?<=\d),/g, "")

/** An entry, and of a heading what stands below it. @param {HTMLElement} element */
const whole = (element) => {
  const parts = [element]
  if (!HEADING.test(element.tagName)) return parts
  let next = element.nextElementSibling
  while (next instanceof HTMLElement && !(HEADING.test(next.tagName) && next.tagName <= element.tagName)) {
    parts.push(next)
    next = next.nextElementSibling
  }
  return parts
}

/** @param {HTMLElement} finder @param {Facet[]} facets @returns {Item[]} */
const itemsOf = (finder, facets) => {
  const isBelow = finder.dataset.below !== undefined
  const root = (isBelow && finder.parentElement) || finder
  const all = /** @type {NodeListOf<HTMLElement>} */ (root.querySelectorAll(finder.dataset.items ?? "tbody tr"))
  const after = (/** @type {Node} */ element) =>
    finder.compareDocumentPosition(element) & Node.DOCUMENT_POSITION_FOLLOWING
  const elements = [...all].filter((element) => !isBelow || after(element))
  return elements.map((element) => {
    const parts = whole(element)
    const cells = element instanceof HTMLTableRowElement ? element.cells : []
    const mark = (/** @type {Facet} */ { name, column }) =>
      listed((column === undefined ? element.dataset[name] : cells[column]?.textContent) ?? "")
    return {
      parts,
      words: plain(parts.map((part) => part.textContent ?? "").join(" ")),
      marks: new Map(facets.map((facet) => [facet.name, mark(facet)])),
    }
  })
}

/** The headings above entries that are headings themselves, with what stands below each. @param {Item[]} items */
const sectionsOf = (items) => {
  /** @type {Map<HTMLElement, Item[]>} */
  const sections = new Map()
  for (const item of items) {
    let above = item.parts[0].previousElementSibling
    while (above && !(HEADING.test(above.tagName) && above.tagName < item.parts[0].tagName))
      above = above.previousElementSibling
    if (above instanceof HTMLElement) sections.set(above, [...(sections.get(above) ?? []), item])
  }
  return sections
}

/** Put the controls above the entries, and set them as the address says. @param {HTMLElement} finder */
export default function open(finder) {
  if (finder.querySelector(".finder-bar")) return
  /** @type {Facet[]} */
  const facets = JSON.parse(finder.dataset.facets ?? "[]")
  const items = itemsOf(finder, facets)
  if (!items.length) return
  const noun = finder.dataset.noun ?? "entries"
  const sections = sectionsOf(items)
  let heading = finder.previousElementSibling
  while (heading && heading.tagName !== "H2") heading = heading.previousElementSibling
  const anchor = heading ? `#${heading.id}` : ""
  const place = location.pathname
  const asked = new URLSearchParams(location.search)

  const box = /** @type {HTMLInputElement} */ (
    make("input", { type: "search", placeholder: finder.dataset.hint ?? "", autocomplete: "off" })
  )
  box.value = asked.get("q") ?? ""
  const count = make("p", { class: "finder-count", role: "status" })
  const all = make("button", { type: "button", class: "finder-all" }, ["Show all"])
  const nothing = make("p", { class: "finder-nothing" }, [`No ${noun} have all of these. Take one away.`])
  /** @type {Map<string, Set<string>>} the marks that are chosen, by the facet */
  const chosen = new Map(facets.map(({ name }) => [name, new Set(asked.getAll(name))]))
  const of = (/** @type {string} */ name) => /** @type {Set<string>} */ (chosen.get(name))

  /** Buttons for the marks of one facet, the most frequent first. @param {Facet} facet @returns {Choice} */
  const choiceOf = (facet) => {
    const marks = items.flatMap((item) => item.marks.get(facet.name) ?? [])
    const often = (/** @type {string} */ mark) => marks.filter((other) => other === mark).length
    const order = facet.byName ? () => 0 : often
    const sorted = [...new Set(marks)].sort((a, b) => order(b) - order(a) || a.localeCompare(b))
    const buttons = sorted.map((mark) => {
      const number = make("span", { class: "finder-number", "aria-hidden": "true" })
      const button = make("button", { type: "button", "data-mark": mark }, [facet.plural ? `${mark}s` : mark, number])
      button.addEventListener("click", () => {
        if (!of(facet.name).delete(mark)) {
          if (facet.one) of(facet.name).clear()
          of(facet.name).add(mark)
        }
        change()
      })
      return /** @type {HTMLButtonElement} */ (button)
    })
    for (const mark of of(facet.name)) if (!sorted.includes(mark)) of(facet.name).delete(mark)
    return { ...facet, buttons }
  }
  const choices = facets.map(choiceOf)

  const words = () => plain(box.value).split(/\s+/).filter(Boolean)
  /** Whether an entry has all that is chosen; of facet `name` the marks `instead`.
   * @param {Item} item @param {string} [name] @param {string[]} [instead] */
  const fits = (item, name, instead = []) =>
    words().every((word) => item.words.includes(word)) &&
    facets.every((facet) =>
      [...(facet.name === name ? instead : of(facet.name))].every((mark) => item.marks.get(facet.name)?.includes(mark)),
    )

  const show = () => {
    let left = 0
    for (const item of items) {
      const stays = fits(item)
      for (const part of item.parts) part.hidden = !stays
      if (stays) left += 1
    }
    for (const { name, one, buttons } of choices)
      for (const button of buttons) {
        const mark = button.dataset.mark ?? ""
        const more = items.filter((item) => fits(item, name, one ? [mark] : [...of(name), mark])).length
        button.setAttribute("aria-pressed", String(of(name).has(mark)))
        button.classList.toggle("finder-empty", more === 0 && !of(name).has(mark))
        const number = button.querySelector(".finder-number")
        if (number) number.textContent = String(more)
      }
    const isAll = left === items.length
    count.textContent = isAll ? `All ${left} ${noun}` : `${left} of ${items.length} ${noun}`
    all.hidden = !words().length && choices.every(({ name }) => of(name).size === 0)
    finder.classList.toggle("finder-filtered", !isAll)
    nothing.hidden = left > 0
    for (const table of finder.querySelectorAll("table")) table.hidden = left === 0
    for (const [section, own] of sections) section.hidden = own.every(({ parts }) => parts[0].hidden)
  }

  /** Say in the address what is shown, so that it can be sent. */
  const tell = () => {
    if (location.pathname !== place) return // the reader has left
    const params = new URLSearchParams()
    if (box.value.trim()) params.set("q", box.value.trim())
    for (const { name } of choices) for (const mark of of(name)) params.append(name, mark)
    const query = params.size ? `?${params}${anchor}` : location.hash
    if (query !== location.search + location.hash) history.replaceState(history.state, "", place + query)
  }

  const change = () => {
    show()
    tell()
  }

  box.addEventListener("input", change)
  all.addEventListener("click", () => {
    box.value = ""
    for (const marks of chosen.values()) marks.clear()
    change()
    box.focus()
  })
  const groups = choices.map(({ name, buttons }) =>
    make("div", { class: `finder-${name}`, role: "group", "aria-label": name }, buttons),
  )
  finder.prepend(
    make("div", { class: "finder-bar", role: "search", "aria-label": finder.dataset.label ?? noun }, [
      make("label", {}, [make("span", {}, ["Find"]), box]),
      ...groups,
      make("div", { class: "finder-state" }, [count, all]),
    ]),
  )
  finder.append(nothing)
  show()
}
