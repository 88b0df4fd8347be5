// The museum's catalogue: a box for words and buttons for tags, above a table that stands whole without this script.

import { make } from "./kit/controls.js"

/** @typedef {{ row: HTMLTableRowElement, words: string, marks: Set<string> }} Exhibit */

const KIND = 1 // the columns of the table that hold marks: one kind, and tags
const TAGS = 2

/** @param {HTMLTableRowElement} row @param {number} column */
const marks = (row, column) =>
  (row.cells[column].textContent ?? "")
    .split(",")
    .map((mark) => mark.trim())
    .filter(Boolean)

/** Put the controls above the table, and set them as the address says. @param {HTMLElement} finder */
export default function open(finder) {
  const table = finder.querySelector("table")
  if (!table || finder.querySelector(".finder-bar")) return
  /** @type {Exhibit[]} */
  const exhibits = Array.from(table.tBodies[0].rows, (row) => ({
    row,
    words: (row.textContent ?? "").toLowerCase(),
    marks: new Set([...marks(row, KIND), ...marks(row, TAGS)]),
  }))
  let heading = finder.previousElementSibling
  while (heading && heading.tagName !== "H2") heading = heading.previousElementSibling
  const anchor = heading ? `#${heading.id}` : ""
  const place = location.pathname
  const asked = new URLSearchParams(location.search)
  const chosen = new Set([...asked.getAll("kind"), ...asked.getAll("tag")])

  const box = /** @type {HTMLInputElement} */ (
    make("input", { type: "search", placeholder: "cache, bfloat16, transformers …", autocomplete: "off" })
  )
  box.value = asked.get("q") ?? ""
  const count = make("p", { class: "finder-count", role: "status" })
  const all = make("button", { type: "button", class: "finder-all" }, ["Show all"])
  const nothing = make("p", { class: "finder-nothing" }, ["No exhibit has all of these. Take one away."])

  /** Buttons for the marks of one column, the most frequent first. @param {string} name @param {number} column */
  const buttonsOf = (name, column) => {
    const all = exhibits.flatMap(({ row }) => marks(row, column))
    const often = (/** @type {string} */ mark) => all.filter((other) => other === mark).length
    const sorted = [...new Set(all)].sort((a, b) => often(b) - often(a) || a.localeCompare(b))
    const buttons = sorted.map((mark) => {
      const number = make("span", { class: "finder-number", "aria-hidden": "true" })
      const text = column === KIND ? `${mark}s` : mark
      const button = make("button", { type: "button", "data-mark": mark }, [text, number])
      button.addEventListener("click", () => {
        if (!chosen.delete(mark)) {
          if (column === KIND) sorted.forEach((other) => chosen.delete(other)) // an exhibit has one kind
          chosen.add(mark)
        }
        change()
      })
      return /** @type {HTMLButtonElement} */ (button)
    })
    return { buttons, group: make("div", { class: `finder-${name}`, role: "group", "aria-label": name }, buttons) }
  }
  const kinds = buttonsOf("kinds", KIND)
  const tags = buttonsOf("tags", TAGS)
  for (const mark of chosen) {
    if (![...kinds.buttons, ...tags.buttons].some((button) => button.dataset.mark === mark)) chosen.delete(mark)
  }

  const show = () => {
    const words = box.value.toLowerCase().split(/\s+/).filter(Boolean)
    const fits = (/** @type {Exhibit} */ exhibit, /** @type {Iterable<string>} */ wanted) =>
      words.every((word) => exhibit.words.includes(word)) && [...wanted].every((mark) => exhibit.marks.has(mark))
    let left = 0
    for (const exhibit of exhibits) {
      exhibit.row.hidden = !fits(exhibit, chosen)
      if (!exhibit.row.hidden) left += 1
    }
    for (const button of [...kinds.buttons, ...tags.buttons]) {
      const mark = button.dataset.mark ?? ""
      const siblings = kinds.buttons.includes(button) ? kinds.buttons.map((other) => other.dataset.mark ?? "") : []
      const others = [...chosen].filter((other) => !siblings.includes(other))
      const more = exhibits.filter((exhibit) => fits(exhibit, [...others, mark])).length
      button.setAttribute("aria-pressed", String(chosen.has(mark)))
      button.classList.toggle("finder-empty", more === 0 && !chosen.has(mark))
      const number = button.querySelector(".finder-number")
      if (number) number.textContent = String(more)
    }
    count.textContent = left === exhibits.length ? `All ${left} entries` : `${left} of ${exhibits.length} entries`
    all.hidden = words.length === 0 && chosen.size === 0
    nothing.hidden = left > 0
    table.hidden = left === 0
  }

  /** Say in the address what is shown, so that it can be sent. */
  const tell = () => {
    if (location.pathname !== place) return // the reader has left
    const params = new URLSearchParams()
    if (box.value.trim()) params.set("q", box.value.trim())
    for (const { dataset } of kinds.buttons)
      if (chosen.has(dataset.mark ?? "")) params.append("kind", dataset.mark ?? "")
    for (const { dataset } of tags.buttons) if (chosen.has(dataset.mark ?? "")) params.append("tag", dataset.mark ?? "")
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
    chosen.clear()
    change()
    box.focus()
  })
  finder.prepend(
    make("div", { class: "finder-bar", role: "search", "aria-label": "Entries of the museum" }, [
      make("label", {}, [make("span", {}, ["Find"]), box]),
      kinds.group,
      tags.group,
      make("div", { class: "finder-state" }, [count, all]),
    ]),
  )
  finder.append(nothing)
  show()
}
