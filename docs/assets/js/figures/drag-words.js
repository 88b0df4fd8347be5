// Tokens as cards: drag one, and its row and column of the attention map go along. With position vectors they change.

import { average, distance, linear, multihead } from "../math/heads.js"
import { color, heat } from "../kit/heat.js"
import { short, write } from "../kit/plot.js"
import { handle } from "../kit/controls.js"

/** @import { Box, Ctx, Look } from "../kit/plot.js" */
/** @typedef {{ q: number[], k: number[], v: number[] }} Part of a query, a key and a value */
/** @typedef {{ words: string[], tints: number[], shuffle: number[], heads: number, tokens: Part[], positions: Part[],
 *   out: number[][], bias: number[] }} Data */

const GLIDE = 0.35 // of the way that is left, at each frame
const TINY = 0.005 // what two digits show as none
const DARK = 0.62 // below this share of the scale, viridis wants light letters

/** @param {import("../kit/stage.js").Stage} stage */
export default function dragWords(stage) {
  /** @type {Data} */
  const { words, tints, shuffle, heads, tokens, positions, out, bias } = stage.data
  const count = words.length
  const ordered = words.map((_, i) => i)
  const still = matchMedia("(prefers-reduced-motion: reduce)")
  let order = ordered // the token at each position
  const drawn = [...ordered] // where each token is drawn, on its way to its position
  let grabbed = -1

  /** What the layer makes of an order: for each token, its weights on the others and its output.
   * @param {number[]} order @param {boolean} encoded */
  const run = (order, encoded) => {
    const at = ordered.map((token) => order.indexOf(token))
    /** @param {"q" | "k" | "v"} of */
    const rows = (of) =>
      tokens.map((token, i) => token[of].map((value, c) => value + (encoded ? positions[at[i]][of][c] : 0)))
    const { weights, mixed } = multihead(rows("q"), rows("k"), rows("v"), heads)
    const outputs = mixed.map((row) => linear(row, out, bias))
    return { weights, outputs, mean: average(outputs) }
  }
  const before = [run(ordered, false), run(ordered, true)]
  const shares = before.flatMap(({ weights }) => weights.flatMap((row) => [...row]))
  const [least, most] = [Math.min(...shares), Math.max(...shares)]
  const loud = Math.max(...before.flatMap(({ outputs }) => outputs.flatMap((row) => [...row].map(Math.abs))))
  const now = () => run(order, encoded.value)
  const was = () => before[Number(encoded.value)]

  /** @param {number} token @param {number} to */
  const move = (token, to) => {
    const rest = order.filter((other) => other !== token)
    order = rest.toSpliced(Math.min(count - 1, Math.max(0, to)), 0, token)
    stage.changed()
  }
  const chosen = stage.choice("token", words.map((text, i) => [String(i), text]), "1") // prettier-ignore
  const picked = () => Number(chosen.value)
  const position = handle(
    () => order.indexOf(picked()),
    (to) => move(picked(), to),
  )
  stage.button("← Move left", () => (position.value -= 1))
  stage.button("Move right →", () => (position.value += 1))
  stage.button("Shuffle all", () => (order = shuffle.map((i) => order[i])))
  stage.button("In order", () => (order = ordered))
  const encoded = stage.toggle("add a position vector to each token")

  /** @param {number} width */
  const layout = (width) => {
    const wide = width > 600
    const cell = Math.min(46, (width - 46) / count)
    const step = wide ? 38 : cell // from row to row
    const map = { left: 46, top: 50, width: cell * count, height: step * count }
    const left = wide ? map.left + map.width + 74 : 74
    const bar = wide ? step : 22
    const strip = { left, top: wide ? map.top : map.top + map.height + 54, width: width - left - 40 }
    return { map, cell, step, bar, strip }
  }
  const paper = stage.canvas({
    label: () => `Attention map and outputs of ${count} tokens in the order ${sentence()}. ${reading()}`,
    ratio: (width) => {
      const { strip, bar } = layout(width)
      return strip.top + count * bar + 40
    },
    draw: (ctx, width, _height, look) => {
      const { map, cell, step, bar, strip } = layout(width)
      const { weights, outputs, mean } = now()
      for (const token of ordered) {
        const aim = order.indexOf(token)
        const left = aim - drawn[token]
        if (token === grabbed) continue
        drawn[token] = still.matches || Math.abs(left) < 0.01 ? aim : drawn[token] + GLIDE * left
        if (drawn[token] !== aim) stage.changed()
      }
      /** @param {Box} box @param {number} far */
      const change = ({ left, top, width, height }, far) => {
        const weight = far < TINY ? 400 : 700
        write(ctx, look, far.toFixed(2), left + width + 36, top + height / 2, { align: "right", weight })
      }
      const at = (/** @type {number} */ token) => drawn[token] * cell
      const down = (/** @type {number} */ token) => map.top + drawn[token] * step
      const others = ordered.filter((token) => token !== picked())
      for (const m of [...others, picked()]) {
        for (const n of [...others, picked()]) {
          ctx.fillStyle = color("viridis", weights[m][n], least, most)
          ctx.fillRect(map.left + at(n) + 0.5, down(m) + 0.5, cell - 1, step - 1)
          if (m !== picked()) continue
          const [x, y] = [map.left + at(n) + cell / 2, down(m) + step / 2]
          const tint = weights[m][n] < least + DARK * (most - least) ? "#f4f4f4" : "#222"
          write(ctx, look, weights[m][n].toFixed(2), x, y, { weight: 600, align: "center", color: tint })
        }
        const letters = { color: look.letters[tints[m]], weight: m === picked() ? 700 : 400, size: 13 }
        write(ctx, look, words[m], map.left - 8, down(m) + step / 2, { ...letters, align: "right" })
        const row = { ...strip, top: strip.top + drawn[m] * bar + 3, height: bar - 6 }
        heat(ctx, row, outputs[m], outputs[m].length, { low: -loud, high: loud })
        change(row, distance(outputs[m], was().outputs[m]))
        write(ctx, look, words[m], strip.left - 8, row.top + row.height / 2, { ...letters, align: "right" })
        card(ctx, look, { left: map.left + at(m) + 2, top: 2, width: cell - 4, height: 42 }, m)
      }
      const foot = { ...strip, top: strip.top + count * bar + 10, height: Math.min(bar, 30) - 6 }
      heat(ctx, foot, mean, mean.length, { low: -loud, high: loud })
      write(ctx, look, "average", strip.left - 8, foot.top + foot.height / 2, { align: "right", weight: 600 })
      change(foot, distance(mean, was().mean))
      const soft = { color: look.soft, size: 12 }
      write(ctx, look, "outputs", strip.left, strip.top - 10, soft)
      write(ctx, look, "change", width, strip.top - 10, { ...soft, align: "right" })
      write(ctx, look, "attention weights", map.left, map.top + map.height + 14, soft)
    },
    point: ({ x, y, width, down, start }) => {
      const { map, cell, step } = layout(width)
      const [column, row] = [(x - map.left) / cell - 0.5, (y - map.top) / step - 0.5]
      const nearest = (/** @type {number} */ spot) => order[Math.min(count - 1, Math.max(0, Math.round(spot)))]
      if (start && row < count && column < count) {
        chosen.value = String(nearest(column < -0.5 ? row : column))
        grabbed = column < -0.5 ? -1 : picked()
      }
      if (!down) grabbed = -1
      if (grabbed < 0) return
      drawn[grabbed] = Math.min(count - 1, Math.max(0, column))
      if (Math.round(drawn[grabbed]) !== position.value) position.value = Math.round(drawn[grabbed])
    },
    arrows: { x: position },
  })
  paper.element.style.cursor = "grab"
  const drop = () => {
    grabbed = -1
    stage.changed()
  }
  for (const kind of ["pointerup", "pointercancel"])
    paper.element.addEventListener(kind, drop, { signal: stage.signal })

  /** @type {(ctx: Ctx, look: Look, box: Box, token: number) => void} */
  const card = (ctx, look, { left, top, width, height }, token) => {
    ctx.beginPath()
    ctx.roundRect(left, top, width, height, 4)
    ctx.fillStyle = look.ground
    ctx.fill()
    ctx.strokeStyle = token === picked() ? look.spark : look.rule
    ctx.lineWidth = token === picked() ? 2.2 : 1.2
    ctx.stroke()
    const middle = left + width / 2
    const style = { align: /** @type {const} */ ("center"), color: look.letters[tints[token]], size: 14, weight: 600 }
    write(ctx, look, words[token], middle, top + (encoded.value ? 14 : height / 2), style)
    if (encoded.value) write(ctx, look, String(order.indexOf(token)), middle, top + 31, { ...style, weight: 400 })
  }

  const sentence = () => `“${order.map((token) => words[token]).join(" ")}”`
  const reading = () => {
    const { weights, outputs, mean } = now()
    const token = picked()
    const to = weights[token].indexOf(Math.max(...weights[token]))
    const changes = [distance(outputs[token], was().outputs[token]), distance(mean, was().mean)]
    const gives = `“${words[token]}” at position ${position.value} gives most weight, ${short(weights[token][to])}, to “${words[to]}”`
    const [own, all] = changes.map((far) => (far < TINY ? "has not changed" : `has changed by ${far.toFixed(2)}`))
    const then = changes[0] < TINY ? "" : `; in order it was ${short(was().weights[token][to])}`
    return `${gives}${then}. Its output ${own}, and the average of all outputs ${all}.`
  }
  stage.say(() => `${sentence()}: ${reading()}`)
}
