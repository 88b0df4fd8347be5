// The numbers behind the panels, as rows with headings.

import { make } from "../kit/controls.js"
import { biased, kindOf } from "./kinds.js"
import { farDistances } from "./model.js"
import { weighs } from "./panels/steps.js"
import { firstOf, wordAt } from "./defaults.js"
import { captions, wavelength } from "./captions.js"

/** @import { View } from "./types.js" */
/** @typedef {Array<Array<string | number>>} Rows */

/** @param {View} view @returns {Rows} */
const ofPattern = ({ state: s, pattern }) => {
  const { values, columns, from, rows, start = 0 } = pattern
  const kind = kindOf(s)
  const column = kind.columns ?? (biased(s) ? "distance" : "channel")
  const heads = Array.from({ length: columns }, (_, i) => `${column} ${i + from}`)
  const name = (/** @type {number} */ r) => (kind.rows ? r + start : biased(s) ? r : wordAt(s, r))
  const row = (/** @type {number} */ r) => [name(r), ...values.subarray(r * columns, (r + 1) * columns)]
  const first = kind.rows ?? (biased(s) ? "head" : "position")
  return [[first, ...heads], ...Array.from({ length: rows }, (_, r) => row(r))]
}

/** @param {View} view @returns {Rows} */
const ofResponse = (view) => {
  const { state: s, curve } = view
  if (s.far && curve) return [["distance m - n", "value"], ...Array.from(farDistances(view.far), (d) => [d, curve(d)])]
  const cell = (/** @type {number} */ value, /** @type {number} */ n) => (s.causal && n > s.query ? "" : value)
  const row = Array.from(view.row(s.query), (value, n) => [wordAt(s, n), s.query - n, cell(value, n)])
  return [["key n", "distance m - n", "value"], ...row]
}

/** The numbers of a panel, with headings. @param {View} view @param {number} panel @returns {Rows} */
export const rows = (view, panel) => {
  const { state: s } = view
  if (panel === 0) return ofPattern(view)
  if (panel === 2) return ofResponse(view)
  const positions = Array.from({ length: s.length }, (_, p) => p)
  if (panel === 1) {
    const cell = (/** @type {number} */ m, /** @type {number} */ n) => (s.causal && n > m ? "" : view.at(m, n))
    const head = ["query m", ...positions.map((n) => `key ${wordAt(s, n)}`)]
    return [head, ...positions.map((m) => [wordAt(s, m), ...positions.map((n) => cell(m, n))])]
  }
  if (weighs(view)) {
    const weights = view.weights(s.query)
    return [["key n", "weight"], ...positions.map((n) => [wordAt(s, n), weights[n]])]
  }
  const [q, k] = [view.queryRow(s.query), view.keyRow(s.key)]
  if (view.pairs.length && view.theta) {
    const theta = view.theta
    const both = ["query first", "query second", "key first", "key second"]
    const head = ["pair", "first channel", "second channel", "frequency", "wavelength", ...both]
    return [head, ...view.pairs.map(([a, b], i) => [i, a, b, theta[i], wavelength(theta[i]), q[a], q[b], k[a], k[b]])]
  }
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

/** The chosen row, for those who read no pictures.
 * @type {(box: HTMLElement, shown: import("./types.js").Shown) => void} */
export const fill = (box, { stage, view, other }) => {
  box.className = "explorer-tables"
  let last = ""
  const tables = (/** @type {View} */ current, /** @type {string} */ before) => {
    const { state: s } = current
    const [query, key] = [`query at ${s.query + firstOf(s)}`, `key at ${s.key + firstOf(s)}`]
    const more = weighs(current)
      ? []
      : [table(`${before}${captions(current)[3][0]}: ${query}, ${key}`, rows(current, 3))]
    return [table(`${before}Row of the ${query}`, rows(current, 2)), ...more]
  }
  const write = () => {
    const [now, beside] = [view(), other()]
    if (!box.clientHeight && last) return // closed
    const key = JSON.stringify([now.state, beside?.state])
    if (key === last) return
    last = key
    box.replaceChildren(...tables(now, beside ? "A. " : ""), ...(beside ? tables(beside, "B. ") : []))
  }
  box.parentElement?.addEventListener("toggle", write, { signal: stage.signal })
  stage.each(write)
  write()
}
