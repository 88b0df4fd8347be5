// Six methods, four terms of a logit: move the text, then its tokens apart, and see which maps change.

import { heat } from "../kit/heat.js"
import { frame, write } from "../kit/plot.js"
import { logitTerms } from "../math/logit-terms.js"

const TERMS = ["content–content", "content–position", "position–content", "position–position"]
const [LEFT, TOP, WIDE, TALL] = [84, 30, 560, 88] // pixels; on less than WIDE, methods are rows
const SILENT = 1e-6

/** @param {import("../kit/stage.js").Stage} stage */
export default function fourTerms(stage) {
  /** @type {{ words: number[], q: number[][], k: number[][], theta: Float64Array, reach: number, far: number,
   *   gap: number, methods: Record<string, any> }} */
  const { words, q, k, theta, reach, far, gap, methods } = stage.data
  const names = Object.keys(methods)
  /** Each method's four maps, row by row. @param {number} first @param {number} step */
  const maps = (first, step) =>
    names.map((name) => {
      const learned = { ...methods[name], theta, row: (/** @type {number} */ o) => methods[name].rows[o + reach] }
      const logits = words.flatMap((query, m) =>
        words.map((key, n) => logitTerms(name, q[query], k[key], first + step * m, first + step * n, learned)),
      )
      return TERMS.map((_, term) => logits.map((logit) => logit[term]))
    })
  const before = maps(0, 1)
  let now = before

  stage.predict(
    `Move the tokens apart, until neighbors are ${gap} positions apart. Whose content–content map changes?`,
    ["none: it is about content", "that of added positions", "RoPE's"],
    (answer) => {
      start.value = 0
      apart.value = gap
      return `${answer === "RoPE's" ? "Yes." : "Look:"} RoPE has one term, with the offset in it. For all others, content–content is content alone.`
    },
  )
  const start = stage.slider("first position", { min: 0, max: far, value: 0 })
  const apart = stage.slider("neighbors apart", { min: 1, max: gap, value: 1 })
  stage.each(() => (now = maps(start.value, apart.value)))
  const changed = (/** @type {number} */ i, /** @type {number} */ j) =>
    now[i][j].some((value, at) => Math.abs(value - before[i][j][at]) > SILENT)

  stage.canvas({
    label: () => `A map for each of ${names.join(", ")} and each of ${TERMS.join(", ")}. ${reading()}`,
    ratio: (width) => (width > WIDE ? TOP + Math.min((width - LEFT) / 6, TALL) * 4 : TOP + ((width - LEFT) / 4) * 6),
    draw: (ctx, width, _height, look) => {
      const cell = (width - LEFT) / (width > WIDE ? 6 : 4)
      const high = width > WIDE ? Math.min(cell, TALL) : cell
      const side = cell - 8
      const tall = high - 8
      const place = (/** @type {number} */ i, /** @type {number} */ j) => {
        const [column, row] = width > WIDE ? [i, j] : [j, i]
        return { left: LEFT + column * cell, top: TOP + row * high, width: side, height: tall }
      }
      /** A title above its column or before its row, in up to two lines.
       * @param {string} text @param {number} i @param {number} j */
      const title = (text, i, j) => {
        const { left, top } = place(i, j)
        const lines = text.replace(/[–-]/, "$&\n").split("\n")
        lines.forEach((part, line) => {
          const style = { size: 12, weight: 600 }
          if (top < 0) write(ctx, look, part, left + side / 2, 6 + 13 * line, { ...style, align: "center" })
          else
            write(ctx, look, part, LEFT - 8, top + tall / 2 + 14 * (line - (lines.length - 1) / 2), {
              ...style,
              align: "right",
            })
        })
      }
      TERMS.forEach((term, j) => title(term, -1, j))
      names.forEach((name, i) => {
        title(name, i, -1)
        TERMS.forEach((_, j) => {
          const box = place(i, j)
          const size = Math.max(...now[i][j].map(Math.abs))
          if (size > SILENT) heat(ctx, box, now[i][j], words.length, { low: -size, high: size })
          else write(ctx, look, "–", box.left + side / 2, box.top + tall / 2, { color: look.soft, align: "center" })
          frame(ctx, changed(i, j) ? look.spark : look.rule, changed(i, j) ? 4 : 1, box.left, box.top, side, tall)
        })
      })
    },
  })
  const reading = () => {
    const places = TERMS.map((_, at) => start.value + at * apart.value).join(", ")
    const counts = names.flatMap((name, i) => {
      const count = TERMS.filter((_, j) => changed(i, j)).length
      return count ? `${count} of ${name}` : []
    })
    return `The tokens are at ${places}, … Framed maps differ from those at 0, 1, 2, …: ${counts.join(", ") || "none yet"}.`
  }
  stage.say(reading)
}
