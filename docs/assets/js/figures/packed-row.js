// One row of a batch: drag its boundaries, choose documents or pads, positions and a mask, and see which weights leak.

import { PAD, changes, counted, owners, weights } from "../math/rows.js"
import { color } from "../kit/heat.js"
import { dot, fill, frame, percent, write } from "../kit/plot.js"

/** @import { Ctx } from "../kit/plot.js" */

/** The weights' scale ends at `high`, that of the positions is `scale`.
 * @typedef {{ letters: string, cuts: number[], q: number[][], k: number[][], high: number, scale: number[] }} Data */

const TOP = 18 // above the tiles, for the handles
const TILE = 44
const TINY = 5e-4 // what a percentage shows as none

/** @param {import("../kit/stage.js").Stage} stage */
export default function packedRow(stage) {
  /** @type {Data} */
  const { letters, cuts, q, k, high, scale } = stage.data
  const length = letters.length

  stage.predict(
    `Three documents share the row. Positions restart, attention is causal, no document mask. Which keys does the first “${letters[0]}” attend to?`,
    ["itself alone", "the first letter of each document", "its own document"],
    (answer) => {
      ;[kind.value, positions.value, masked.value, encoding.value] = ["packed", "counted", false, "rope"]
      ;[first.value, second.value] = cuts
      const verdict = answer.startsWith("the first") ? "Yes." : "No: the first letter of each."
      return `${verdict} All three have position 0, and causal masking compares positions. It gives ${percent(state().change[0].leak)} of its weight to letters ahead of it in the row.`
    },
  )
  const kind = stage.choice("the row holds", [
    ["packed", "three documents"],
    ["before", "pads, then a text"],
    ["inside", "a text with pads inside"],
  ])
  const positions = stage.choice("positions", [
    ["along", "along the row"],
    ["counted", "counted in each text"],
  ])
  const encoding = stage.choice("encoding", [
    ["rope", "RoPE"],
    ["sinusoid", "sinusoid"],
  ])
  const masked = stage.toggle("mask the others")
  const first = stage.slider("first boundary", { min: 1, max: length - 2, value: cuts[0] })
  const second = stage.slider("second boundary", { min: 2, max: length - 1, value: cuts[1] })
  let before = [...cuts]
  stage.each(() => {
    second.element.hidden = kind.value === "before"
    if (first.value >= second.value) {
      if (first.value !== before[0])
        second.value = first.value + 1 // the one that moves pushes the other
      else first.value = second.value - 1
    }
    before = [first.value, second.value]
  })

  const state = () => {
    const owner = owners(length, [first.value, second.value], kind.value)
    const ids = positions.value === "counted" ? counted(owner) : owner.map((_, s) => s)
    /** @type {[number[][], number[][], number[], number[], boolean, string]} */
    const inputs = [q, k, ids, owner, masked.value, encoding.value]
    return { owner, ids, rows: weights(...inputs), change: changes(...inputs) }
  }
  const edges = () => (kind.value === "before" ? [first] : [first, second])

  /** @param {number} width */
  const layout = (width) => {
    const left = 20
    const cell = Math.floor(Math.min(25, (0.66 * (width - left)) / length))
    const top = TOP + TILE + 52
    return { tile: width / length, left, cell, top, bars: left + cell * length + 18 }
  }
  /** @typedef {import("../kit/paper.js").Look} Look */
  /** @param {Ctx} ctx @param {Look} look @param {number} width */
  const drawRow = (ctx, look, width) => {
    const { owner, ids } = state()
    const { tile } = layout(width)
    const [low, most] = scale
    owner.forEach((own, s) => {
      const style = { align: /** @type {const} */ ("center"), color: ids[s] > most / 2 - 1 ? "#123" : "#fff" }
      fill(ctx, own === PAD ? look.ground : color("viridis", ids[s], low, most), s * tile + 0.5, TOP, tile - 1, TILE)
      const pad = { ...style, color: look.soft, size: 11 }
      if (own === PAD) return write(ctx, look, tile < 26 ? "·" : "pad", (s + 0.5) * tile, TOP + TILE / 2, pad)
      write(ctx, look, letters[s], (s + 0.5) * tile, TOP + 16, { ...style, size: 16, weight: 600 })
      write(ctx, look, String(ids[s]), (s + 0.5) * tile, TOP + 34, { ...style, size: 12 })
    })
    ctx.fillStyle = look.spark
    for (const { value } of edges()) {
      ctx.fillRect(value * tile - 1.5, 8, 3, TOP + TILE - 4)
      dot(ctx, value * tile, 9, look.spark, 7)
    }
  }
  /** @param {Ctx} ctx @param {Look} look @param {number} width */
  const drawMap = (ctx, look, width) => {
    const { owner, rows, change } = state()
    const { left, cell, top, bars } = layout(width)
    const room = width - bars - 2
    rows.forEach((row, m) => {
      const y = top + m * cell
      const letter = owner[m] === PAD ? "·" : letters[m]
      write(ctx, look, letter, left - 10, y + cell / 2, { align: "center", color: look.soft })
      write(ctx, look, letter, left + (m + 0.5) * cell, top + length * cell + 11, { align: "center", color: look.soft })
      if (owner[m] === PAD) return // nobody reads what a pad collects
      row.forEach((weight, n) => {
        fill(ctx, weight ? color("viridis", weight, 0, high) : look.ground, left + n * cell, y, cell - 1, cell - 1)
        if (!weight || owner[n] === owner[m]) return
        frame(ctx, look.series[1], 2, left + n * cell + 1, y + 1, cell - 3, cell - 3)
      })
      const { leak, moved } = change[m]
      fill(ctx, look.ground, bars, y + 2, room, cell - 5)
      fill(ctx, look.series[0], bars, y + 2, room * moved, cell - 5)
      fill(ctx, look.series[1], bars, y + 2, room * leak, cell - 5)
    })
    write(ctx, look, "attention weights", left, top - 12, { weight: 600 })
    write(ctx, look, room < 120 ? "moved" : "weight that moved", bars, top - 12, { weight: 600 })
    const foot = top + length * cell
    write(ctx, look, "to others", bars, foot + 11, { color: look.letters[1], weight: 600 })
    write(ctx, look, "within its text", bars, foot + 27, { color: look.letters[0], weight: 600 })
    write(ctx, look, "key", left + (length * cell) / 2, foot + 27, { align: "center", color: look.soft })
  }
  /** @type {{ value: number } | undefined} */
  let dragged
  const paper = stage.canvas({
    label: () => `A row of ${length} columns and its map of attention. ${reading()}`,
    ratio: (width) => {
      const { top, cell } = layout(width)
      return top + cell * length + 38
    },
    draw: (ctx, width, _height, look) => {
      drawRow(ctx, look, width)
      drawMap(ctx, look, width)
    },
    point: ({ x, y, width, down, start }) => {
      const at = x / layout(width).tile
      if (!down) dragged = undefined
      if (start && y < TOP + TILE + 8) {
        const far = edges().map(({ value }) => Math.abs(value - at))
        dragged = edges()[far.indexOf(Math.min(...far))]
      }
      if (dragged) dragged.value = Math.round(at)
    },
    arrows: { x: first, y: second },
  })
  paper.element.style.cursor = "grab"

  const reading = () => {
    const { owner, rows, change } = state()
    const real = change.filter((_, m) => owner[m] !== PAD)
    const mean = (/** @type {"leak" | "moved"} */ of) => real.reduce((sum, row) => sum + row[of], 0) / real.length
    let [pairs, ahead] = [0, 0]
    rows.forEach((row, m) =>
      row.forEach((weight, n) => {
        if (!weight || owner[m] === PAD || owner[m] === owner[n]) return
        pairs += 1
        ahead += Number(n > m)
      }),
    )
    const strangers = kind.value === "packed" ? "other documents" : "pads"
    const leaks = pairs
      ? `${pairs} ${pairs === 1 ? "pair leaks" : "pairs leak"}, ${ahead} of them ahead in the row: ${percent(mean("leak"))} of all weight lies on ${strangers}.`
      : "No pair leaks."
    const moved = mean("moved")
    if (moved < TINY) return `${leaks} Every token attends exactly as it does alone.`
    const texts = kind.value === "packed" ? "each" : "the"
    return `${leaks} Against ${texts} text alone, ${percent(moved)} of the weight has moved.`
  }
  stage.say(reading)
}
