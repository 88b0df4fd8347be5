// Forty laboratories repeat one comparison with a few seeds each: whose confidence interval excludes 0, and on which
// side.

import { axes, dashed, dot, short, stroke, write } from "../kit/plot.js"
import { randomState } from "../math/random.js"
import { chances, interval } from "../math/seeds.js"

/** @import { Ctx, Look } from "../kit/plot.js" */

const REACH = 6 // standard deviations to either side
const ROW = 7 // pixels
const NARROW = 480

/** @param {import("../kit/stage.js").Stage} stage */
export default function seedLuck(stage) {
  /** @type {{ cases: Array<[string, number]>, visible: Array<number | null>, labs: number, seeds: number }} */
  const { cases, visible, labs, seeds } = stage.data
  const most = visible.length
  let stream = 0
  let drawn = draw()

  /** Runs of both encodings in all laboratories; a laboratory that trains one seed more keeps the others. */
  function draw() {
    const { normal } = randomState(stream)
    const runs = () => Array.from({ length: most }, normal)
    return Array.from({ length: labs }, () => [runs(), runs()])
  }

  stage.predict(
    `Say the gap between two encodings is real: ${cases[0][1]} standard deviations of a run. You train not ${seeds} but ${most} seeds each. How often will your 95% confidence interval exclude 0?`,
    ["nearly always", "in half of the cases", "in one of seven"],
    (answer) => {
      ;[which.value, gap.value, runs.value] = ["0", cases[0][1], most]
      const { behind, clear, found: size } = longRun()
      return `${answer.endsWith("seven") ? "Yes" : "No, in one of seven"}: ${percent(clear)}, and where it does, the gap looks ${times(size)} times as large as it is. The worse one still leads in ${percent(behind)}.`
    },
  )
  /** @type {Array<[string, string]>} */
  const options = cases.map(([name], i) => [String(i), name])
  const which = stage.select("case", [...options, ["own", "your own"]])
  const gap = stage.slider("true gap", { min: 0, max: 12, step: 0.1, value: cases[0][1], show: sigmas })
  const runs = stage.slider("seeds each", { min: 1, max: most, value: seeds })
  stage.button("Other laboratories", () => {
    stream += 1
    drawn = draw()
  })
  let chosen = which.value
  stage.each(() => {
    const [, size] = cases[Number(which.value)] ?? []
    if (which.value !== chosen && size !== undefined) gap.value = size
    else if (size !== undefined && gap.value !== size) which.value = "own"
    chosen = which.value
  })

  const longRun = () => chances(gap.value, runs.value, visible[runs.value - 1])
  const differences = () => {
    const n = runs.value
    const width = visible[n - 1]
    return drawn
      .map(([first, second]) => {
        const [a, b] = [first.slice(0, n).map((x) => x + gap.value), second.slice(0, n)]
        return width === null ? { middle: a[0] - b[0], half: NaN } : interval(a, b, width)
      })
      .sort((a, b) => b.middle - a.middle)
  }
  const counted = () => {
    const all = differences()
    const ahead = all.filter(({ middle }) => middle > 0)
    const shows = all.filter(({ middle, half }) => Math.abs(middle) > half)
    return { all, ahead: ahead.length, clear: shows.filter(({ middle }) => middle > 0).length, shows: shows.length }
  }

  stage.canvas({
    label: () => {
      const { ahead, clear, shows } = counted()
      return `${labs} differences with their confidence intervals, sorted, and a line at the true gap. ${labs - ahead} lie on the wrong side of 0. ${clear} intervals lie wholly on the right side and ${shows - clear} on the wrong one`
    },
    ratio: (wide) => labs * ROW + (wide > NARROW ? 88 : 112),
    draw: (ctx, wide, _height, look) => {
      const { all } = counted()
      const box = { left: 8, top: 24, width: wide - 20, height: labs * ROW }
      const to = axes(ctx, look, box, {
        x: [-REACH, Math.max(REACH, gap.value + REACH)],
        y: [labs, 0],
        yticks: [],
        xlabel: "difference of the means, in standard deviations of a run",
      })
      ctx.save()
      ctx.beginPath()
      ctx.rect(box.left, 0, box.width + 4, box.top + box.height)
      ctx.clip()
      const foot = to.y(labs)
      const x = to.x(gap.value)
      stroke(ctx, [to.x(0), box.top], [to.x(0), foot], look.soft, 1)
      dashed(ctx, [5, 4], () => stroke(ctx, [x, box.top], [x, foot], look.series[2], 1.8))
      all.forEach(({ middle, half }, i) => {
        const y = to.y(i + 0.5)
        const color = Math.abs(middle) > half ? look.series[middle > 0 ? 0 : 1] : look.soft
        ctx.globalAlpha = color === look.soft ? 0.55 : 1
        if (half === half) stroke(ctx, [to.x(middle - half), y], [to.x(middle + half), y], color, 2)
        dot(ctx, to.x(middle), y, color, 2.6)
      })
      ctx.restore()
      const ranks = gap.value === 0 ? ["second", "first"] : ["worse", "better"]
      const [left, right] = ranks.map((rank) => (wide > NARROW ? `the ${rank} one is ahead` : rank))
      write(ctx, look, `← ${left}`, to.x(0) - 8, 11, { align: "right", color: look.soft })
      write(ctx, look, `${right} →`, to.x(0) + 8, 11, { color: look.soft })
      legend(ctx, look, wide, box.top + box.height + 54)
    },
    arrows: { x: gap, y: runs },
  })
  stage.say(() => {
    const { ahead, clear, shows } = counted()
    const [blind, none] = [runs.value === 1, gap.value === 0]
    const visibly = (/** @type {number} */ count) => (blind ? "" : `, ${count} of them significantly`)
    const of = `Of ${labs} laboratories with ${runs.value} ${blind ? "seed" : "seeds"} each and ${none ? "no gap at all" : `a true gap of ${sigmas(gap.value)}`}`
    const [leader, other] = none ? ["first", "second"] : ["better", "worse"]
    return `${of}, ${ahead} find the ${leader} one ahead${visibly(clear)}, and ${labs - ahead} the ${other} one${visibly(shows - clear)}. ${blind ? "One run has no interval, so none of them can know. " : ""}In the long run ${inTheLongRun()}`
  })

  function inTheLongRun() {
    const { behind, clear, wrong, found: size } = longRun()
    const single = runs.value === 1
    if (gap.value === 0)
      return single ? "each leads in half." : `${percent(clear + wrong)} find a significant gap that is not there.`
    const leads = `the worse one leads in ${percent(behind)}`
    if (single) return `${leads}.`
    const large = size > 1.05 * gap.value ? `, where it looks ${times(size)} times as large as it is` : ""
    return `${leads}, the gap is significant in ${percent(clear)}${large}${wrong > 0.0005 ? `, and its opposite in ${percent(wrong)}` : ""}.`
  }

  /** @param {number} size */
  function times(size) {
    return (size / gap.value).toFixed(1)
  }
}

/** @type {(ctx: Ctx, look: Look, wide: number, y: number) => void} */
const legend = (ctx, look, wide, y) => {
  const labels = ["interval above 0", "interval below 0", "contains 0", "true gap"]
  const colors = [look.series[0], look.series[1], look.soft, look.series[2]]
  const two = wide <= NARROW
  labels.forEach((text, i) => {
    const x = 8 + (two ? (i % 2) * 150 : i * 148)
    const row = y + (two && i > 1 ? 20 : 0)
    stroke(ctx, [x, row], [x + 16, row], colors[i], 3)
    write(ctx, look, text, x + 23, row)
  })
}

/** @param {number} size */
const sigmas = (size) => `${short(Number(size.toFixed(1)))} σ`

/** @param {number} share */
const percent = (share) => {
  const hundred = 100 * share
  if (hundred < 0.1) return "less than 0.1%"
  if (hundred > 99.9) return "more than 99.9%"
  return `${hundred.toFixed(hundred < 10 || hundred > 90 ? 1 : 0)}%`
}
