// How well the explorer's numbers agree with those that the package gave the page.

import { make } from "../kit/controls.js"
import { explorer } from "./model.js"
import { defaults } from "./spec.js"

/** @import { Given } from "./types.js" */

const REST = 300 // milliseconds after which the numbers are judged

/** The largest difference, as a share where numbers are above 1. @param {Given} given */
export const agreement = (given) => {
  const view = explorer(given)
  let worst = 0
  let points = 0
  for (const [set, row, column, cell, m, n, score] of given.golden) {
    const seen = view({ ...defaults(given), ...set })
    const told = [seen.pattern.values[row * seen.pattern.columns + column], seen.at(m, n)]
    for (const [i, right] of [cell, score].entries()) {
      worst = Math.max(worst, Math.abs(told[i] - right) / Math.max(1, Math.abs(right)))
      points += 1
    }
  }
  return { worst, points }
}

/** Say it below the panels, once they stand. @param {import("../kit/stage.js").Stage} stage @param {Given} given */
export const judge = (stage, given) => {
  if (stage.signal.aborted) return
  const line = stage.add(make("p", { class: "explorer-judge" }))
  const wait = setTimeout(() => {
    const { worst, points } = agreement(given)
    const size = worst ? worst.toExponential(0).replace("-", "−") : "the last bit"
    line.textContent = `Agrees with posenc ${given.version} to ${size} at ${points} points.`
  }, REST)
  stage.signal.addEventListener("abort", () => clearTimeout(wait))
}
