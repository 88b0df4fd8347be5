// The attention weight of the best key as the text grows, with unscaled queries and with each formula that scales them.

import { axes, dot, line, short } from "../kit/plot.js"
import { factor, share } from "../math/share.js"

const POINTS = 240 // of a curve

/** @param {import("../kit/stage.js").Stage} stage */
export default function queryScale(stage) {
  /** @type {{ trained: number, longest: number, asked: number, lead: number, most: number, strength: number,
   *   kinds: string[], answers: number[] }} */
  const { trained, longest, asked, lead: usual, most, strength: usualStrength, kinds, answers } = stage.data
  const part = (/** @type {number} */ v) => v.toFixed(2)

  stage.predict(
    `A key leads by ${usual} in its logit and has a weight of ${part(share(usual, trained))} among ${trained} tokens. What is its weight among ${asked}?`,
    answers.map(part),
    (answer) => {
      ;[kind.value, lead.value, tokens.value] = ["none", usual, asked]
      const has = part(share(usual, asked))
      return `${answer === has ? "Yes" : "No"}: ${has}. The logits of the new tokens are as low as those of the old ones, but there are ${asked / trained} times as many. Now choose a formula.`
    },
  )
  const kind = stage.select("queries scaled by", ["none", ...kinds], kinds[0])
  const show = (/** @type {number} */ v) => short(Math.round(v))
  const tokens = stage.slider("tokens", { min: 2, max: longest, value: asked, log: true, show })
  const lead = stage.slider("lead in logits", { min: 1, max: most, value: usual, step: 0.5, show: part })
  const strength = stage.slider("strength", { min: 0, max: 0.5, value: usualStrength, step: 0.01, show: part })

  const shareOf = (/** @type {string} */ of, /** @type {number} */ n) =>
    share(factor(of, n, trained, strength.value) * lead.value, n)
  const n = () => Math.round(tokens.value)
  const grid = Array.from({ length: POINTS }, (_, i) => 2 * (longest / 2) ** (i / (POINTS - 1)))

  stage.each(() => (strength.element.hidden = ["none", "logn"].includes(kind.value)))
  stage.canvas({
    label: () =>
      `Weight of one key against the number of tokens: it falls without a scale; with ${kind.value} it is ${part(shareOf(kind.value, n()))} at ${n()} tokens`,
    ratio: 0.42,
    draw: (ctx, width, height, look) => {
      const box = { left: 46, top: 10, width: width - 60, height: height - 54 }
      const ends = [2, longest]
      const to = axes(ctx, look, box, { x: ends, y: [0, 1], logx: true, xlabel: "tokens", ylabel: "its weight" })
      line(ctx, to, [trained, trained], [0, 1], look.rule, 1)
      const plain = grid.map((tokens) => shareOf("none", tokens))
      line(ctx, to, grid, plain, look.soft)
      const scaled = grid.map((tokens) => shareOf(kind.value, tokens))
      if (kind.value !== "none") line(ctx, to, grid, scaled, look.series[0])
      dot(ctx, to.x(n()), to.y(shareOf("none", n())), look.soft)
      dot(ctx, to.x(n()), to.y(shareOf(kind.value, n())), look.series[0])
    },
  })
  stage.say(() => {
    const plain = `Among ${short(n())} tokens the key has a weight of ${part(shareOf("none", n()))}`
    if (kind.value === "none") return `${plain}.`
    const c = factor(kind.value, n(), trained, strength.value)
    return `${plain} with the query unscaled, and ${part(shareOf(kind.value, n()))} with ${kind.value}, which multiplies the query by ${part(c)}.`
  })
}
