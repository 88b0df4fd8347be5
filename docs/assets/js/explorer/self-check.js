// How well the explorer's numbers agree with those that the package gave the page.

import { make } from "../kit/controls.js"
import { explorer } from "./model.js"
import { defaults } from "./defaults.js"

/** @import { PageData, State, View } from "./types.js" */

const REST = 300 // milliseconds after which the numbers are judged

/** The larger difference of a point's two numbers, as a share where they are above 1.
 * @type {(data: PageData, view: (state: State) => View, point: PageData["golden"][number]) => number} */
const difference = (data, view, [set, row, column, cell, m, n, score]) => {
  const current = view({ ...defaults(data, set.encoding, true), ...set })
  const computed = [current.pattern.values[row * current.pattern.columns + column], current.at(m, n)]
  const apart = [cell, score].map((right, i) => Math.abs(computed[i] - right) / Math.max(1, Math.abs(right)))
  return Math.max(...apart)
}

/** The largest difference at all points. @param {PageData} data */
export const agreement = (data) => {
  const view = explorer(data)
  const worst = Math.max(...data.golden.map((point) => difference(data, view, point)))
  return { worst, points: 2 * data.golden.length }
}

/** Say it below the panels, once they stand: a point at a time, so that no hand has to wait.
 * @type {(stage: import("../kit/stage.js").Stage, data: PageData) => void} */
export const judge = (stage, data) => {
  if (stage.signal.aborted) return
  const line = stage.add(make("p", { class: "explorer-judge" }))
  const view = explorer(data)
  let worst = 0
  const next = (/** @type {number} */ i) => {
    if (i < data.golden.length) {
      worst = Math.max(worst, difference(data, view, data.golden[i]))
      wait = setTimeout(next, 0, i + 1)
      return
    }
    const size = worst ? worst.toExponential(0).replace("-", "−") : "the last bit"
    line.textContent = `Agrees with posenc ${data.version} to ${size} at ${2 * i} points.`
  }
  let wait = setTimeout(next, REST, 0)
  stage.signal.addEventListener("abort", () => clearTimeout(wait))
}
