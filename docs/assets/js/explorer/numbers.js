// The numbers behind the panels, as rows with headings.

import { make } from "../kit/controls.js"
import { biased } from "./spec.js"
import { captions, wavelength } from "./words.js"

/** @import { View } from "./types.js" */
/** @typedef {Array<Array<string | number>>} Rows */

/** The numbers of a panel, with headings. @param {View} view @param {number} panel @returns {Rows} */
export const rows = (view, panel) => {
  const { state: s, pattern } = view
  const bias = biased(s)
  const positions = Array.from({ length: s.length }, (_, p) => p + s.first)
  const cell = (/** @type {number} */ m, /** @type {number} */ n) => (s.causal && n > m ? "" : view.at(m, n))
  if (panel === 0) {
    const { values, columns, from } = pattern
    const heads = Array.from({ length: columns }, (_, i) => (bias ? `distance ${i + from}` : `channel ${i}`))
    const row = (/** @type {number} */ r) => Array.from(values.subarray(r * columns, (r + 1) * columns))
    const names = Array.from({ length: pattern.rows }, (_, r) => (bias ? r : r + s.first))
    return [[bias ? "head" : "position", ...heads], ...names.map((name, r) => [name, ...row(r)])]
  }
  if (panel === 1) {
    const head = ["query m", ...positions.map((n) => `key ${n}`)]
    return [head, ...positions.map((p, m) => [p, ...positions.map((_, n) => cell(m, n))])]
  }
  if (panel === 2)
    return [["key n", "distance m - n", "value"], ...positions.map((p, n) => [p, s.query - n, cell(s.query, n)])]
  if (view.pairs.length && view.theta) {
    const [q, k, theta] = [view.queryRow(s.query), view.keyRow(s.key), view.theta]
    const both = ["query first", "query second", "key first", "key second"]
    const head = ["pair", "first channel", "second channel", "frequency", "wavelength", ...both]
    return [head, ...view.pairs.map(([a, b], i) => [i, a, b, theta[i], wavelength(theta[i]), q[a], q[b], k[a], k[b]])]
  }
  if (bias || s.encoding === "none") {
    const weights = view.weights(s.query)
    return [["key n", "weight"], ...positions.map((p, n) => [p, weights[n]])]
  }
  const [q, k] = [view.queryRow(s.query), view.keyRow(s.key)]
  return [["channel", `row ${s.query}`, `row ${s.key}`], ...Array.from(q, (x, i) => [i, x, k[i]])]
}

/** @param {string} title @param {Rows} rows */
const table = (title, [head, ...cells]) => {
  const text = (/** @type {string | number} */ cell, /** @type {number} */ i) =>
    typeof cell === "string" || !i ? String(cell) : String(Number(cell.toPrecision(6))).replace("-", "−")
  const line = (/** @type {string} */ tag, /** @type {Array<string | number>} */ row) => {
    const written = row.map((cell, i) => make(tag, {}, [text(cell, i)]))
    return make("tr", {}, written)
  }
  const parts = [make("caption", {}, [title]), make("thead", {}, [line("th", head)])]
  const lines = cells.map((row) => line("td", row))
  const scrolls = { class: "explorer-table", tabindex: "0", role: "region", "aria-label": title }
  return make("div", scrolls, [make("table", {}, [...parts, make("tbody", {}, lines)])])
}

/** The chosen row, for those who read no pictures. @param {HTMLElement} box @param {import("./types.js").Shown} shown */
export const fill = (box, { stage, view }) => {
  box.className = "explorer-tables"
  /** @type {View | null} */
  let last = null
  const write = () => {
    const now = view()
    if (!box.clientHeight && last) return // closed
    if (last && JSON.stringify(last.state) === JSON.stringify(now.state)) return
    last = now
    const { state: s } = now
    const [query, key] = [`query at ${s.query + s.first}`, `key at ${s.key + s.first}`]
    const more = biased(s) ? [] : [table(`${captions(now)[3][0]}: ${query}, ${key}`, rows(now, 3))]
    box.replaceChildren(table(`Row of the ${query}`, rows(now, 2)), ...more)
  }
  box.parentElement?.addEventListener("toggle", write, { signal: stage.signal })
  stage.each(write)
  write()
}
