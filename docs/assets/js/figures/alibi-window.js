// A text, a query in it, and how much of each head's attention weight every key behind it gets.

import { alibi, alibiSlopes } from "../math/biases.js"
import { softmax } from "../math/attention.js"
import { endless, halfLife, holding, leadToWin, meanDistance } from "../math/window.js"
import { make } from "../kit/controls.js"
import { fill, short, write } from "../kit/plot.js"

/** @import { Box, Ctx, Look } from "../kit/plot.js" */
/** @import { Stage } from "../kit/stage.js" */
/** @typedef {{ slope: number, weights: Float64Array, needs: number }} Row of a head; the nearest token first */

const WIDE = 560 // pixels from which a row has room for all its numbers
const TOP = 22

/** @param {Stage} stage */
export default function alibiWindow(stage) {
  /** @type {{ words: string[], last: number, match: number, heads: number, most: number, lead: number, share: number }}
   */
  const { words, last, match, heads: usual, most, lead: loudest, share } = stage.data

  stage.predict(
    `“${bare(words[match])}” is at distance ${last - match}. Let its logit lead all others by more and more. Which of ${usual} heads first gives it more than half of the weight?`,
    ["the largest slope: fewest rivals", "the smallest slope: least bias", "one in between"],
    (answer) => {
      ;[heads.value, query.value] = [usual, last]
      bound()
      key.value = match
      const all = rows()
      const first = all.reduce((a, b) => (b.needs < a.needs ? b : a))
      head.value = all.indexOf(first)
      lead.value = Math.ceil(first.needs * 10) / 10
      return `${answer.endsWith("between") ? "Yes" : "No"}: in head ${head.value}, from a lead of ${first.needs.toFixed(1)}. Head ${usual - 1} has the smallest slope, but there the other keys weigh nearly as much: it takes ${all[usual - 1].needs.toFixed(1)}. In head 0 the bias alone is −${short(all[0].slope * (last - match))}: it takes ${all[0].needs.toFixed(1)}.`
    },
  )
  const heads = stage.slider("heads", { min: 1, max: most, value: usual })
  const head = stage.slider("highlight head", { min: 0, max: usual - 1, value: usual / 2 })
  const query = stage.slider("query m", { min: 1, max: words.length - 1, value: last })
  const key = stage.slider("key n", { min: 0, max: words.length - 2, value: match })
  const lead = stage.slider("its lead", { min: 0, max: loudest, value: 0, step: 0.1, show: (v) => v.toFixed(1) })

  /** A head that there is, a match behind the query. */
  const bound = () => {
    if (head.max !== heads.value - 1) head.max = heads.value - 1
    if (key.max !== query.value - 1) key.max = query.value - 1
  }
  const back = () => query.value - key.value
  /** @returns {Row[]} */
  const rows = () =>
    alibiSlopes(heads.value).map((slope) => {
      const bias = Float64Array.from({ length: query.value + 1 }, (_, distance) => alibi(distance, slope))
      const weights = softmax(bias.map((logit, distance) => logit + (distance === back() ? lead.value : 0)))
      return { slope, weights, needs: leadToWin(bias, back()) }
    })
  let readings = rows()
  stage.each(() => {
    bound()
    readings = rows()
  })
  litText(stage, words, { weights: () => readings[head.value].weights, back, query, key })

  const tall = () => (heads.value > 8 ? 19 : 24)
  const shareOf = (/** @type {Row} */ row) => row.weights[back()]
  const summary = (/** @type {Row} */ { slope, weights }) => [
    halfLife(slope).toFixed(1),
    meanDistance(weights).toFixed(1),
    String(holding(weights, share)),
  ]
  stage.canvas({
    label: () =>
      readings
        .map((row, h) => [`Head ${h}: slope ${fraction(row.slope)}, halves in`, ...summary(row), percent(shareOf(row))])
        .map(([slope, half, mean, count, part]) => `${slope} ${half}, mean ${mean}, ${count} hold most, key n ${part}`)
        .join("; "),
    ratio: () => TOP + heads.value * tall() + 4,
    draw: (ctx, width, _height, look) => {
      const wide = width >= WIDE
      const [left, right, meter] = wide ? [262, width - 156, 48] : [76, width - 92, 32]
      const columns = wide ? [34, 88, 148, 204, 250, width - 48, width - 2] : [30, 68, width - 2]
      const some = (/** @type {string[]} */ all) => (wide ? all : [all[0], all[4], all[5]])
      const put = (/** @type {string} */ word, /** @type {number} */ i, /** @type {number} */ y, style = {}) =>
        write(ctx, look, word, columns[i], y, { size: 12, align: "right", ...style })
      const titles = ["head", "slope", "halves in", "mean Δ", `${100 * share}% in`, "key n", "wins at"]
      some(titles).forEach((title, i) => put(title, i, 8, { color: look.soft }))
      const cell = (right - left) / words.length
      readings.forEach((row, h) => {
        const [base, chosen, won] = [TOP + (h + 1) * tall() - 5, h === head.value, shareOf(row) > 0.5]
        const at = (/** @type {number} */ distance) => left + (query.value - distance) * cell
        if (chosen) fill(ctx, look.ground, 0, base - tall() + 4, width, tall())
        const highest = highestOther(row.weights, back())
        row.weights.forEach((weight, distance) => {
          const isMatch = distance === back()
          const height = Math.min(1, weight / highest) * (tall() - 6)
          ctx.globalAlpha = isMatch ? 1 : 1 - 0.75 * shareOf(row)
          fill(ctx, look.series[isMatch ? 1 : 0], at(distance), base, cell > 3 ? cell - 0.6 : cell + 0.3, -height)
        })
        ctx.globalAlpha = 1
        const count = holding(row.weights, share)
        fill(ctx, look.ink, at(count - 1), base + 1, count * cell, 1.2)
        gauge(ctx, look, { left: right + 8, top: base - tall() / 2, width: meter, height: 8 }, shareOf(row))
        const part = `${won ? "✓ " : ""}${percent(shareOf(row))}`
        const wins = lead.value ? row.needs.toFixed(1) : "?" // not before the reader has tried a lead
        some([String(h), fraction(row.slope), ...summary(row), part, wins]).forEach((word, i) =>
          put(word, i, base - tall() / 2 + 5, {
            weight: (word === part ? won : chosen) ? 700 : 400,
            color: word === part && won ? look.letters[1] : look.ink,
          }),
        )
      })
    },
    point: ({ y, down }) => {
      if (down) head.value = Math.min(heads.value - 1, Math.max(0, Math.floor((y - TOP) / tall())))
    },
    arrows: { x: query },
  })
  stage.say(() => {
    const row = readings[head.value]
    const [half, mean, count] = summary(row)
    const long = endless(row.slope, share)
    const more = lead.value ? "" : ` (in an endless text ${long.mean.toFixed(1)} and ${short(long.count)})`
    const won = readings.filter((row) => shareOf(row) > 0.5).length
    return `Head ${head.value}, slope ${fraction(row.slope)}: the weight halves every ${half} tokens. “${bare(words[query.value])}” attends at mean distance ${mean}, and the nearest ${count} keys hold ${100 * share}%${more}. “${bare(words[query.value - back()])}”, at distance ${back()}, leads by ${lead.value.toFixed(1)} logits and gets ${percent(shareOf(row))}. It wins in ${won} of ${heads.value} ${heads.value > 1 ? "heads" : "head"}.`
  })
}

/** @typedef {{ value: number }} Position */
/** @typedef {{ weights: () => Float64Array, back: () => number, query: Position, key: Position }} Reading */

/** The text, shaded by the weights of a head. @type {(stage: Stage, words: string[], reading: Reading) => void} */
const litText = (stage, words, { weights, back, query, key }) => {
  const spans = words.map((word) => make("span", { style: "padding: 0.1em 0.13em; border-radius: 0.2em" }, [word]))
  const look = "max-width: none; line-height: 1.65; cursor: pointer; touch-action: pan-y; user-select: none"
  const text = stage.add(make("p", { style: look }))
  spans.forEach((span) => text.append(span, " "))
  let dragged = query
  for (const kind of /** @type {const} */ (["pointerdown", "pointermove"])) {
    const drag = (/** @type {PointerEvent} */ { clientX, clientY, buttons }) => {
      const n = spans.findIndex((span) => span === document.elementFromPoint(clientX, clientY))
      if (n < 0 || !buttons) return
      if (kind === "pointerdown") dragged = n === query.value - back() ? key : query
      dragged.value = n
    }
    text.addEventListener(kind, drag, { signal: stage.signal })
  }
  stage.each(() => {
    const highest = highestOther(weights(), back())
    const rivals = 60 * (1 - 0.75 * weights()[back()])
    spans.forEach(({ style }, n) => {
      const distance = query.value - n
      const isMatch = distance === back()
      const light = distance < 0 ? 0 : (isMatch ? 60 : rivals) * Math.min(1, weights()[distance] / highest)
      const lamp = `color-mix(in srgb, var(--line-${isMatch ? 1 : 0}) ${light}%, transparent)`
      style.background = distance ? lamp : "var(--ink)"
      style.color = distance ? (distance < 0 ? "var(--ink-soft)" : "") : "var(--paper)"
      style.boxShadow = isMatch ? "inset 0 0 0 2px var(--line-1)" : ""
    })
  })
}

/** The largest weight of another key: the bar of key n reaches the top when it ties with it.
 * @type {(weights: Float64Array, match: number) => number} */
const highestOther = (weights, match) => Math.max(...weights.filter((_, distance) => distance !== match))

/** A share, with a mark at one half. @type {(ctx: Ctx, look: Look, box: Box, share: number) => void} */
const gauge = (ctx, look, { left, top, width, height }, share) => {
  fill(ctx, look.rule, left, top, width, height)
  fill(ctx, look.series[1], left, top, width * share, height)
  fill(ctx, look.ink, left + width / 2 - 0.6, top - 2, 1.2, height + 4)
}

/** @param {string} word */
const bare = (word) => word.replace(/[^\p{L}’]/gu, "")

/** @param {number} slope */
const fraction = (slope) => (Number.isInteger(1 / slope) ? `1/${1 / slope}` : slope.toFixed(4))

/** @param {number} part */
const percent = (part) => `${(100 * part).toFixed(part < 0.095 || Math.abs(part - 0.5) < 0.01 ? 1 : 0)}%`
