// A table whose rows are sorted by the column whose head is pressed: first up, then down.

import { make } from "./kit/controls.js"

const NUMBER = /^\(?([-−]?[\d,.]+)/

/** The number that a cell begins with, or its words. @param {HTMLTableRowElement} row @param {number} column */
const key = (row, column) => {
  const text = (row.cells[column]?.textContent ?? "").trim()
  const number = NUMBER.exec(text)?.[1].replaceAll(",", "").replace("−", "-")
  return number === undefined ? text.toLowerCase() : Number(number)
}

/** Numbers before words. @param {string | number} a @param {string | number} b */
const compare = (a, b) => {
  if (typeof a === "number" && typeof b === "number") return a - b
  if (typeof a === "number") return -1
  return typeof b === "number" ? 1 : a.localeCompare(b)
}

/** @param {HTMLElement} part an element with a table in it */
export default function open(part) {
  const table = part.querySelector("table")
  const body = table?.tBodies[0]
  if (!table || !body || table.querySelector("th button")) return
  const heads = [...(table.tHead?.rows[0].cells ?? [])]
  heads.forEach((head, column) => {
    const button = make("button", { type: "button", class: "sortable" }, [...head.childNodes])
    head.append(button)
    button.addEventListener("click", () => {
      const down = head.getAttribute("aria-sort") === "ascending"
      const isEmpty = (/** @type {HTMLTableRowElement} */ row) => Number(key(row, column) === "")
      // What is unknown comes last, up and down.
      const rows = [...body.rows].sort(
        (a, b) => isEmpty(a) - isEmpty(b) || compare(key(a, column), key(b, column)) * (down ? -1 : 1),
      )
      for (const other of heads) other.removeAttribute("aria-sort")
      head.setAttribute("aria-sort", down ? "descending" : "ascending")
      body.append(...rows)
    })
  })
}
