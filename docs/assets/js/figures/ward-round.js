// Seven layers with one bug each: find the positions that explain the curve of accuracy.

import { apart, expected, means, places } from "../math/patients.js"
import { axes, dashed, line, stroke, write } from "../kit/plot.js"

/** What is right in 100 answers, by position; and for the worst and the best text.
 * @typedef {{ bug: string, size: number, curve: number[], rows: [number, number] }} Case */

const HIGH = 190 // pixels of the chart
/** @typedef {{ name: string, ask: string, low: number, high: number, start: number, describe: (size: number) => string,
 *   next: string }} Bug */
/** @type {Record<string, Bug>} */
const BUGS = {
  bits: {
    name: "positions are rounded",
    ...{ ask: "significant bits", low: 3, high: 10, start: 10 },
    describe: (size) => `positions in ${size} significant bits`,
    next: "Keep them as integers or in float32, and round last (P4).",
  },
  rows: {
    name: "a table ends, clamped",
    ...{ ask: "rows", low: 16, high: 556, start: 500 },
    describe: (size) => `a table of ${size} rows, clamped`,
    next: "It shows in prefill too. Compute the table that a text needs.",
  },
  chunks: {
    name: "chunks count anew",
    ...{ ask: "tokens of a chunk", low: 16, high: 320, start: 256 },
    describe: (size) => `chunks of ${size} count anew`,
    next: "Tell each chunk how many tokens came before it.",
  },
  writing: {
    name: "each decoded token at 0",
    ...{ ask: "decodes from", low: 16, high: 556, start: 480 },
    describe: (size) => `from ${size} on, each decoded token gets position 0`,
    next: "It shows in decoding only: pass the number of tokens seen (C2).",
  },
  pads: {
    name: "pads count in some texts",
    ...{ ask: "one text in", low: 1, high: 8, start: 1 },
    describe: (size) => `queries count pads in one text of ${size}`,
    next: "The mean hides it, the rows show it. Count real tokens, on both sides (B4).",
  },
  twice: {
    name: "keys rotated twice",
    ...{ ask: "", low: 0, high: 0, start: 0 },
    describe: () => "keys rotated twice",
    next: "Low from the first tokens on. Rotate before the cache or after it (C3).",
  },
  base: {
    name: "only the base is wrong",
    ...{ ask: "", low: 0, high: 0, start: 0 },
    describe: () => "a wrong base",
    next: "Its curve is that of the layer without a bug. Only a look at the frequencies shows it.",
  },
}
const NEAR = 4 // tokens: what the curve can show

/** @param {import("../kit/stage.js").Stage} stage */
export default function wardRound(stage) {
  /** @type {{ cases: Case[], sound: number, length: number, back: number, window: number, letters: number,
   *   width: number }} */
  const { cases, sound, length, back, window, letters, width: step } = stage.data
  const numbers = cases.map((_, i) => String(i + 1))
  const chosen = stage.choice("case", numbers)
  const phase = stage.choice("phase", ["decoding", "prefill"])
  const theirs = () => cases[Number(chosen.value) - 1]
  const solved = new Set()
  let verdict = ""

  /** What is seen of a bug, if the text is decoded or comes in one pass.
   * @param {string} bug @param {number[]} curve @param {number} right without the bug */
  const curveOf = (bug, curve, right) =>
    phase.value === "prefill" && bug === "writing" ? curve.map(() => right) : curve
  const name = (/** @type {string} */ bug, /** @type {number} */ of) => BUGS[bug].describe(of)
  const measured = () => curveOf(theirs().bug, theirs().curve, sound).map((hits) => hits / 100)
  const computed = () => {
    const chances = expected(places(suspect.value, size(), length), back, window, letters)
    return curveOf(suspect.value, means(chances, step), 1)
  }
  const gap = () => apart(measured(), computed())

  stage.canvas({
    label: () =>
      `Right answers of case ${chosen.value} by position, and what ${name(suspect.value, size())} would give`,
    ratio: () => HIGH + 82,
    draw: (ctx, width, _height, look) => {
      const box = { left: 42, top: 26, width: width - 54, height: HIGH }
      const to = axes(ctx, look, box, {
        x: [0, length],
        y: [0, 1.08],
        yticks: [0, 0.5, 1],
        xlabel: "position",
        title: solved.has(chosen.value) ? name(theirs().bug, theirs().size) : "Right answers",
      })
      const spots = measured().map((_, i) => back + (i + 0.5) * step)
      ctx.globalAlpha = 0.55
      ctx.fillStyle = look.series[1]
      ctx.beginPath()
      ctx.moveTo(to.x(spots[0]), to.y(0))
      measured().forEach((hits, i) => ctx.lineTo(to.x(spots[i]), to.y(hits)))
      ctx.lineTo(to.x(spots[spots.length - 1]), to.y(0))
      ctx.fill()
      ctx.globalAlpha = 1
      const guess = to.y(1 / letters)
      dashed(ctx, [1, 4], () => stroke(ctx, [box.left, guess], [box.left + box.width, guess], look.soft, 1))
      dashed(ctx, [7, 4], () => line(ctx, to, spots, computed(), look.series[0], 2))
      write(ctx, look, "dashed: your suspect", width - 12, HIGH + 72, { align: "right", color: look.letters[0] })
      write(ctx, look, "filled: the case", box.left, HIGH + 72, { color: look.letters[1] })
    },
  })
  const bugs = Object.entries(BUGS)
  const suspect = stage.select("suspect", bugs.map(([key, { name }]) => [key, name])) // prettier-ignore
  const sized = bugs.filter(([, { ask }]) => ask)
  const sliders = Object.fromEntries(
    sized.map(([key, { ask, low, high, start }]) => [key, stage.slider(ask, { min: low, max: high, value: start })]),
  )
  const size = () => sliders[suspect.value]?.value ?? 0
  const judge = () => {
    const { bug, size: truth } = theirs()
    const cliffs = ["rows", "writing"]
    if (bug === suspect.value) {
      const exact = ["bits", "pads"].includes(bug) ? 0 : NEAR
      if (Math.abs(size() - truth) > exact)
        return "The right kind. Move the size until the dashed line meets the edges."
      solved.add(chosen.value)
      return `Yes: ${name(bug, truth)}. ${BUGS[bug].next}`
    }
    if (cliffs.includes(bug) && cliffs.includes(suspect.value))
      return `No. Both have a cliff. Choose prefill: then ${bug === "rows" ? "the cliff stays" : "all answers are right"}.`
    return gap() < 0.02
      ? "No, though the curve fits. What else would leave the positions as they are?"
      : "No: the lines do not meet."
  }
  stage.button("That is it", () => (verdict = `${judge()} `))

  let stateBefore = ""
  stage.each(() => {
    for (const [key, slider] of Object.entries(sliders)) slider.element.hidden = key !== suspect.value
    const state = [chosen.value, suspect.value, size(), phase.value].join()
    if (state !== stateBefore && stateBefore) verdict = ""
    stateBefore = state
  })
  stage.say(() => {
    const [worst, best] = curveOf(theirs().bug, theirs().rows, sound / 100)
    const mean = measured().reduce((a, b) => a + b, 0) / measured().length
    return `${verdict}Case ${chosen.value}, ${phase.value}: ${mean.toFixed(2)} right on average, ${worst.toFixed(2)} in its worst text and ${best.toFixed(2)} in its best. Suspect: ${name(suspect.value, size())}; the dashed line lies ${gap().toFixed(2)} away. ${solved.size} of ${cases.length} solved.`
  })
}
