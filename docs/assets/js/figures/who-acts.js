// A sentence whose tokens can act: each counts, fades and reflects the keys before it. Four maps show what becomes of them.

import { counted, faded, turned } from "../math/content.js"
import { heat } from "../kit/heat.js"
import { frame, percent, write } from "../kit/plot.js"

/** @import { Ctx, Look } from "../kit/plot.js" */
/** @typedef {{ title: string, short: string, of: (m: number, n: number) => number, show: (value: number) => string,
 *   map: "viridis" | "RdBu_r", low: number, high: number }} ActMap */

/** @typedef {{ word: string, acts: boolean }} Token */
/** `more` may be said `most` times over, at the index `at`.
 * @typedef {{ words: string[], acts: number[], gate: number, more: string[], at: number, most: number }} Data */

const WIDE = 560 // pixels from which the four maps stand in one row
const CARD = 90 // height of a row of cards

/** @param {import("../kit/stage.js").Stage} stage */
export default function whoActs(stage) {
  /** @type {Data} */
  const { words, acts: acting, gate, more, at, most } = stage.data
  /** @type {Token[]} */
  const tokens = words.map((word, i) => ({ word, acts: Boolean(acting[i]) }))
  let times = 0 // how often `more` is in the text
  const name = (/** @type {number} */ i) => `“${tokens[i]?.word}”`
  const last = () => tokens.length - 1

  stage.predict(
    "Only the full stops act. Let every token act as they do: what becomes of the three maps with blocks?",
    ["finer blocks, one a token", "stripes along the diagonal", "one block, all cells alike"],
    (answer) => {
      ;[rain.value, others.value] = [0, 1]
      grow()
      ;[query.value, key.value] = [last(), 0]
      const verdict = answer.startsWith("stripes") ? "Yes: stripes." : "No: stripes."
      return `${verdict} If all gates are equal, only the offset matters.`
    },
  )
  const query = stage.slider("query m", { min: 0, max: last(), value: last(), show: name })
  const key = stage.slider("key n", { min: 0, max: last(), value: 0, show: name })
  const flip = stage.button("", () => (tokens[key.value].acts = !tokens[key.value].acts))
  const others = stage.slider("the others act by", { min: 0, max: 1, step: 0.05, value: 0, show: percent })
  const rain = stage.slider(`“${more.join(" ")}”, times`, { min: 0, max: most, value: 0 })

  /** Say `more` as often as the slider wants; query and key stay the same. */
  const grow = () => {
    if (times === rain.value) return
    const positions = [query, key].map(({ value }) => value)
    const from = at + Math.min(times, rain.value) * more.length
    const by = (rain.value - times) * more.length
    const added = Array.from({ length: Math.max(0, by) }, (_, i) => ({ word: more[i % more.length], acts: false }))
    tokens.splice(from, Math.max(0, -by), ...added)
    times = rain.value
    query.max = key.max = last()
    ;[query.value, key.value] = positions.map((i) => (i < from ? i : Math.max(from - 1, i + by)))
  }
  stage.each(() => {
    grow()
    if (key.value > query.value) key.value = query.value
    flip.textContent = `${tokens[key.value].acts ? "Stop" : "Let act:"} ${name(key.value)}`
  })

  const shares = () => tokens.map(({ acts }) => (acts ? 1 : others.value))
  /** What the four maps show, and how they write a number. @returns {ActMap[]} */
  const maps = () => {
    const acts = shares()
    const most = Math.max(1, counted(acts, last(), 0))
    const fades = (/** @type {number} */ m, /** @type {number} */ n) => faded(acts, gate, m, n)
    const light = { map: /** @type {const} */ ("viridis"), low: 0 }
    const mirrored = { map: /** @type {const} */ ("RdBu_r"), low: -1.4, high: 1.4 }
    return [
      { title: "Offset m − n", short: "offset", of: (m, n) => m - n, show: String, ...light, high: last() },
      { title: "CoPE: count", short: "count", of: (m, n) => counted(acts, m, n), show: few, ...light, high: most },
      { title: "Gate: factor", short: "factor", of: fades, show: few, ...light, high: 1 },
      { title: "PaTH: sign", short: "sign", of: (m, n) => turned(acts, m, n), show: sign, ...mirrored },
    ]
  }
  /** What the maps are if all tokens act alike, and nothing if they do not. */
  const alike = () => {
    const [act, ...rest] = shares()
    if (rest.some((other) => other !== act)) return []
    if (act === 0) return ["", "no encoding", "no encoding", "no encoding"]
    const steps = act === 1 ? "" : `, steps of ${few(act)}`
    const slope = (-act * Math.log(gate)).toFixed(2)
    const turn = act === 1 ? "RoPE, θ = π" : `times ${sign(1 - 2 * act)} a token`
    return ["", `Shaw’s table${steps}`, `ALiBi, slope ${slope}`, turn]
  }

  /** Where the tokens and the maps stand. @param {Ctx} ctx @param {number} width */
  const layout = (ctx, width) => {
    const left = 74
    let [x, y] = [left, 0]
    const cards = tokens.map(({ word }) => {
      const wide = Math.max(38, Math.ceil(ctx.measureText(word).width) + 12)
      if (x + wide > width) [x, y] = [left, y + CARD]
      x += wide + 3
      return { x: x - wide - 3, y, width: wide }
    })
    const top = y + CARD + 28
    const across = width > WIDE ? 4 : 2
    const side = Math.floor((width - 14 - (across - 1) * 18) / across)
    const boxes = [0, 1, 2, 3].map((i) => ({
      left: 14 + (i % across) * (side + 18),
      top: top + Math.floor(i / across) * (side + 62),
      width: side,
      height: side,
    }))
    return { cards, boxes, height: boxes[3].top + side + 32 }
  }
  /** @param {Ctx} ctx @param {Look} look @param {number} width */
  const drawWords = (ctx, look, width) => {
    const [m, n, drawn, acts] = [query.value, key.value, maps(), shares()]
    layout(ctx, width).cards.forEach(({ x, y, width: wide }, i) => {
      ctx.beginPath()
      ctx.roundRect(x, y + 2, wide, 24, 4)
      ctx.fillStyle = look.ground
      ctx.fill()
      ctx.globalAlpha = acts[i]
      ctx.fillStyle = look.series[1]
      ctx.fill()
      ctx.globalAlpha = 1
      ctx.lineWidth = i === m || i === n ? 2.2 : 1
      ctx.strokeStyle = i === m ? look.series[0] : i === n ? look.series[2] : look.rule
      ctx.stroke()
      const middle = x + wide / 2
      const color = acts[i] > 0.5 ? "#1c1408" : i > m ? look.soft : look.ink
      write(ctx, look, tokens[i].word, middle, y + 14, { align: "center", weight: acts[i] > 0.5 ? 700 : 400, color })
      if (x === 74)
        drawn.forEach(({ short }, r) =>
          write(ctx, look, short, 68, y + 36 + 15 * r, { size: 11.5, color: look.soft, align: "right" }),
        )
      if (i > m) return
      drawn.forEach(({ of, show }, r) => {
        const weight = i === n ? 700 : 400
        write(ctx, look, show(of(m, i)), middle, y + 36 + 15 * r, { size: 12, align: "center", weight })
      })
    })
  }
  /** @param {Ctx} ctx @param {Look} look @param {number} width */
  const drawMaps = (ctx, look, width) => {
    const count = tokens.length
    const notes = alike()
    const { boxes } = layout(ctx, width)
    maps().forEach(({ title, of, map, low, high }, i) => {
      const box = boxes[i]
      const cell = box.width / count
      const values = Array.from({ length: count ** 2 }, (_, j) => {
        const [m, n] = [Math.floor(j / count), j % count]
        return n > m ? NaN : of(m, n)
      })
      heat(ctx, box, values, count, { map, low, high })
      write(ctx, look, title, box.left + box.width / 2, box.top - 12, { align: "center", weight: 600, size: 13 })
      ctx.fillStyle = look.series[1]
      shares().forEach((act, j) => {
        ctx.globalAlpha = act
        ctx.fillRect(box.left + j * cell + 0.5, box.top + box.height + 2, cell - 1, 4)
        ctx.fillRect(box.left - 6, box.top + j * cell + 0.5, 4, cell - 1)
      })
      ctx.globalAlpha = 1
      frame(ctx, look.series[0], 1.5, box.left, box.top + query.value * cell, (query.value + 1) * cell, cell)
      const [x, y] = [box.left + key.value * cell, box.top + query.value * cell]
      frame(ctx, look.paper, 4, x, y, cell, cell)
      frame(ctx, look.ink, 1.8, x, y, cell, cell)
      const note = notes[i] ?? ""
      write(ctx, look, note, box.left + box.width / 2, box.top + box.height + 20, { align: "center", weight: 600 })
    })
  }
  const paper = stage.canvas({
    label: () => `${tokens.length} tokens that may act, and four maps of queries and keys. ${reading()}`,
    ratio: (width) => layout(paper.ctx, width).height,
    draw: (ctx, width, _height, look) => {
      drawWords(ctx, look, width)
      drawMaps(ctx, look, width)
    },
    point: ({ x, y, width, down, start }) => {
      if (!down) return
      const { cards, boxes } = layout(paper.ctx, width)
      const card = cards.findIndex((at) => x >= at.x && x <= at.x + at.width && y >= at.y && y < at.y + CARD)
      if (start && card >= 0) {
        tokens[card].acts = !tokens[card].acts
        if (card <= query.value) key.value = card
      }
      const box = boxes.find(
        ({ left, top, width, height }) => x > left && x < left + width && y > top && y < top + height,
      )
      if (!box) return
      const index = (/** @type {number} */ far) => Math.floor((far / box.width) * tokens.length)
      query.value = index(y - box.top)
      key.value = index(x - box.left)
    },
    arrows: { x: key, y: query },
  })
  paper.element.style.cursor = "pointer"

  const reading = () => {
    const [m, n] = [query.value, key.value]
    const [back, count, left, turn] = maps().map(({ of, show }) => show(of(m, n)))
    const between = shares().slice(n + 1, m + 1)
    const act = between.filter((share) => share === 1).length
    const rest = others.value && act < between.length ? `, the others by ${percent(others.value)}` : ""
    const on =
      m === n
        ? `Query and key are ${name(m)}.`
        : `From ${name(n)} to ${name(m)}: offset ${back}, and ${act} of these tokens ${act === 1 ? "acts" : "act"}${rest}.`
    const [, shaw, alibi, rope] = alike()
    const all =
      shaw === rope ? " No token acts, and no encoding is left." : ` All act alike: ${shaw}; ${alibi}; ${rope}.`
    const old = shaw ? all : ""
    return `${on} Count: ${count}. Factor of the weight: ${left}. Sign: ${turn}.${old}`
  }
  stage.say(reading)
}

const few = (/** @type {number} */ value) =>
  Number.isInteger(value) ? String(value) : Math.abs(value) < 0.005 ? "≈0" : value.toFixed(2)
const sign = (/** @type {number} */ value) =>
  Math.abs(value) === 1 ? (value > 0 ? "+" : "−") : few(value).replace("-", "−")
