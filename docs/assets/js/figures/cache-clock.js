// A full cache with three kinds of positions: which keys does the newest token attend to?

import { attentionWeights, cachedPositions, cachedTokens, curve } from "../math/cache.js"
import { axes, dot, faint, fill, frame, line, percent, stroke, write } from "../kit/plot.js"

/** @import { Ctx, Look, Scales } from "../kit/plot.js" */
/** @import { Way } from "../math/cache.js" */

const [TITLE, BARS, CELL, GAP] = [20, 29, 18, 8] // pixels of a row of keys, from its top
const KEYS = TITLE + BARS + CELL + GAP
const COLORS = { "true positions": 0, "positions in the cache": 2, "keys counted": 4 } // those of the page
const DIGITS = 22 // pixels that a position of three digits takes

/** @param {import("../kit/stage.js").Stage} stage */
export default function cacheClock(stage) {
  /** @type {{ questions: string[], products: import("../math/cache.js").Pairs[][][], theta: number[], back: number,
   *   size: number, sinks: number, seen: number, last: number, trained: number }} */
  const { questions, products, theta, back, size: usual, sinks: stay, seen: start, last, trained } = stage.data
  const ways = /** @type {Way[]} */ (Object.keys(COLORS))
  const heads = products.map((asked) => asked.map((head) => head.map((pairs) => curve(pairs, theta, last))))

  stage.predict(
    `Positions stay true, and the first ${stay} tokens stay in the cache. After ${start} tokens the layer is asked for ${questions[0]}. Where does it attend?`,
    [`to offset ${back}`, "to the first tokens", "to all tokens alike"],
    (answer) => {
      ;[ask.value, size.value, sinks.value, count.value] = [questions[0], usual, stay, start]
      const { tokens, weights } = look(ways[0])
      const far = weights.slice(0, stay).reduce((a, b) => a + b, 0)
      const most = far > weights[tokens.indexOf(start - 1 - back)] ? "to the first" : "to offset"
      return `${answer.startsWith(most) ? "Yes" : "No"}: the first ${stay} get ${percent(far)} of its weight, the token at offset ${back} ${percent(weights[tokens.indexOf(start - 1 - back)])}. Training had no offset so large: it is out of distribution.`
    },
  )
  const ask = stage.choice("asked for", questions)
  const count = stage.film("tokens seen", { min: back + 1, max: last, value: usual, rate: 20 })
  const size = stage.slider("cache size", { min: 8, max: usual, value: usual })
  const sinks = stage.slider("sinks that stay", { min: 0, max: stay, value: stay })

  const wanted = (t = newest()) => (ask.value === questions[0] ? t - back : 0)
  const newest = () => Math.floor(count.value) - 1
  const look = (/** @type {Way} */ way, t = newest()) => {
    const tokens = cachedTokens(t, size.value, sinks.value)
    const positions = cachedPositions(tokens, size.value, way)
    return { tokens, positions, weights: attentionWeights(heads[questions.indexOf(ask.value)], tokens, positions) }
  }
  const share = (/** @type {Way} */ way, t = newest()) => {
    const { tokens, weights } = look(way, t)
    return weights[tokens.indexOf(wanted(t))] ?? 0 // 0: it is no longer in the cache
  }
  const steps = Array.from({ length: last - back }, (_, i) => back + i)
  let reached = 0 // what comes later is not told before
  let key = ""
  /** @type {number[][]} */
  let curves = []
  const followed = () => {
    const now = [ask.value, size.value, sinks.value].join()
    if (now !== key) curves = ways.map((way) => steps.map((t) => share(way, t)))
    key = now
    return curves
  }

  /** @type {Scales} */
  let to
  stage.canvas({
    label: () =>
      `Three caches of ${look(ways[0]).tokens.length} keys after ${newest() + 1} tokens, with the position and the weight of each key, and below how much the token asked for gets as the text goes on`,
    ratio: () => ways.length * KEYS + 140,
    draw: (ctx, width, height, style) => {
      ways.forEach((way, i) => row(ctx, style, width, i * KEYS, way))
      const top = ways.length * KEYS + 28
      const box = { left: 40, top, width: width - 52, height: height - top - 42 }
      to = axes(ctx, style, box, {
        x: [0, last],
        y: [0, 1],
        yticks: [0, 0.5, 1],
        yformat: percent,
        xlabel: "tokens seen",
        title: "Weight on the token asked for",
      })
      faint(ctx, 0.5, () => fill(ctx, style.rule, to.x(0), to.y(1), to.x(size.value) - to.x(0), to.y(0) - to.y(1)))
      const x = to.x(newest() + 1)
      reached = Math.max(reached, newest() - back + 1)
      stroke(ctx, [x, to.y(0)], [x, to.y(1)], style.soft, 1)
      ways.forEach((way, i) => {
        const color = style.series[COLORS[way]]
        line(ctx, to, steps.slice(0, reached).map((t) => t + 1), followed()[i], color, 2) // prettier-ignore
        dot(ctx, x, to.y(share(way)), color)
      })
    },
    point: ({ x, y, down }) => {
      if (down && y > ways.length * KEYS) count.value = Math.round(to.atX(x))
    },
    arrows: { x: count },
  })

  /** A row of keys: above each its weight, in it its position.
   * @type {(ctx: Ctx, style: Look, width: number, top: number, way: Way) => void} */
  const row = (ctx, style, width, top, way) => {
    const { tokens, positions, weights } = look(way)
    const color = style.series[COLORS[way]]
    const side = (width - 2) / size.value
    const floor = top + TITLE + BARS
    write(ctx, style, way, 1, top + 9, { weight: 700, color: style.letters[COLORS[way]] })
    const target = tokens.indexOf(wanted())
    const label = target < 0 ? "not in the cache" : `${percent(weights[target])} on the right one`
    write(ctx, style, label, width - 2, top + 9, { align: "right" })
    const every = Math.ceil(DIGITS / side)
    const labeled = target < 0 ? tokens.length - 1 : target
    tokens.forEach((_token, i) => {
      const x = 1 + i * side
      const far = positions[positions.length - 1] - positions[i] >= trained
      faint(ctx, far ? 0.45 : 0.6, () =>
        fill(ctx, far ? style.series[1] : style.rule, x + 0.5, floor + 2, side - 1, CELL - 2),
      )
      ctx.fillStyle = i === target ? color : style.soft
      ctx.fillRect(x + side * 0.15, floor - BARS * weights[i], side * 0.7, BARS * weights[i] + 0.8)
      if (i === target) frame(ctx, color, 1.8, x + 0.5, floor + 2, side - 1, CELL - 2)
      if ((labeled - i) % every) return
      const middle = Math.min(x + side / 2, width - DIGITS / 2)
      write(ctx, style, String(positions[i]), middle, floor + CELL / 2 + 2, { align: "center", size: 10.5 })
    })
  }

  stage.say(() => {
    const { tokens, positions } = look(ways[0])
    const gone = newest() + 1 - tokens.length
    const dropped = gone ? `${gone} are evicted` : "none is evicted yet"
    const far = positions[positions.length - 1]
    const away =
      far >= trained && sinks.value && gone
        ? ` With true positions the first token is at offset ${far}; training had at most ${trained - 1}.`
        : ""
    const missing = tokens.includes(wanted()) ? "" : " It is no longer in the cache: no position can help."
    const shares = ways.map((way, i) => `${percent(share(way))}${i ? "" : " of its weight"} with ${way}`)
    return `${newest() + 1} tokens seen, ${dropped}.${away} Asked for ${ask.value} the layer gives the right token ${shares.join(", ")}.${missing}`
  })
}
