// Where an arrow key or a pointer leads.

import { biased, channeled, kindOf } from "../kinds.js"
import { pairOf } from "../model.js"
import { clip } from "./marks.js"

/** @import { Focus, State, View } from "../types.js" */

/** The key at a distance from the query, or both moved if there is none.
 * @type {(distance: number, s: State) => Focus} */
export const byDistance = (distance, s) => {
  const [low, high] = [Math.max(0, distance), Math.min(s.length - 1, s.length - 1 + distance)]
  const query = clip(s.query, low, high)
  return { query, key: query - distance }
}

/** Whether the last panel draws weights of attention. @param {View} view */
export const weighs = ({ state: s }) => biased(s) || kindOf(s).door === "score" || s.encoding === "none"

/** Where an arrow key leads. @type {(view: View, panel: number, way: "x" | "y", step: number) => Focus} */
export const stepped = (view, panel, way, step) => {
  const { state: s, pairs, pattern } = view
  const last = s.length - 1
  const query = () => ({ query: clip(s.query + step, s.causal ? s.key : 0, last) })
  const key = () => ({ key: clip(s.key + step, 0, s.causal ? s.query : last) })
  const distance = () => byDistance(clip(s.query - s.key + step, s.causal ? 0 : -last, last), s)
  if (way === "y")
    return biased(s) && panel === 0 && !kindOf(s).grid ? { head: clip(s.head + step, 0, s.heads - 1) } : query()
  if (panel === 1 || (panel === 2 && kindOf(s).grid)) return key()
  if (panel === 2) return distance()
  if (panel === 3 && weighs(view)) return key()
  if (panel === 0 && !channeled(s)) return kindOf(s).grid || kindOf(s).columns ? key() : distance()
  if (panel === 3 && pairs.length) {
    const pair = clip(pairOf(view, s.channel) + step, 0, pairs.length - 1)
    return { channel: pairs[pair][0] }
  }
  return { channel: clip(s.channel + step, 0, pattern.columns - 1) }
}
