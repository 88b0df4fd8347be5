// A bias, and what every doubling of the distance gets of the last token's weight.

import { softmax } from "../math/attention.js"
import { alibi, fire, kerple, t5Bucket, t5Starts } from "../math/biases.js"
import { fireAsKerple, octaves } from "../math/families.js"
import { axes, dot, fill, line, short, write } from "../kit/plot.js"

const TOP = 170 // pixels of the upper chart
const BOTTOM = 150

/** @param {import("../kit/stage.js").Stage} stage */
export default function biasFamily(stage) {
  /** @type {{ trained: number, longest: number, low: number, high: number, table: number[], buckets: number,
   *   distance: number, knobs: Record<string, Record<string, number[]>> }} */
  const { trained, longest, low, high, table: given, buckets, distance, knobs } = stage.data
  const starts = t5Starts(buckets, distance, false)

  stage.predict(
    `KERPLE with r₁ = 1: the weight falls with every position. The text doubles from ${trained} tokens to ${longest.toLocaleString("en")}. What becomes of the share beyond the nearest ${trained}?`,
    ["it settles", "it grows at every doubling", "it stays near zero"],
    (answer) => {
      family.value = "KERPLE, log"
      knob("r₁").value = knob("r₂").value = 1
      doublings.value = Math.log2(longest)
      const [last, before] = shares().reverse()
      return `${answer.startsWith("it grows") ? "Yes" : "No, it grows"}: to ${percent(beyond())} by now. The last doubling gets ${percent(last)}, the one before got ${percent(before)}: twice as many tokens at half the weight. Such a sum has no limit, so in the end nothing is left for near tokens. Now try r₁ above 1, and below.`
    },
  )
  const family = stage.select("family", Object.keys(knobs))
  const doublings = stage.slider("length L", {
    min: Math.log2(trained),
    max: Math.log2(longest),
    value: Math.log2(trained),
    show: (v) => (2 ** v).toLocaleString("en"),
  })
  const sliders = Object.entries(knobs).flatMap(([owner, ranges]) =>
    Object.entries(ranges).map(([name, [min, max, value, step]]) => ({
      owner,
      name,
      slider: stage.slider(name, { min, max, value, step: step || 1, log: !step, show: short }),
    })),
  )
  const knob = (/** @type {string} */ name) =>
    /** @type {(typeof sliders)[0]} */ (sliders.find((item) => item.owner === family.value && item.name === name))
      .slider

  const table = [...given]
  let bucket = -1
  stage.each(() => {
    sliders.forEach(({ owner, slider }) => (slider.element.hidden = owner !== family.value))
    if (family.value !== "T5") return
    if (knob("bucket").value !== bucket) knob("its bias").value = table[(bucket = knob("bucket").value)]
    table[bucket] = knob("its bias").value
  })

  const text = () => 2 ** doublings.value
  /** @type {Record<string, (n: number) => number>} of a distance */
  const biases = {
    "KERPLE, log": (n) => kerple(-n, knob("r₁").value, knob("r₂").value, "log"),
    "KERPLE, power": (n) => kerple(-n, knob("r₁").value, knob("r₂").value, "power"),
    ALiBi: (n) => alibi(-n, knob("slope").value),
    T5: (n) => table[t5Bucket(-n, starts, false)],
    FIRE: (n) => fire(text() - 1, text() - 1 - n, fireAsKerple(knob("r₁").value, 1, knob("T").value)),
  }
  const curve = () => Float64Array.from({ length: text() }, (_, n) => biases[family.value](n))
  const shares = () => octaves(softmax(curve()))
  const beyond = () => shares().reduce((sum, share, i) => (i > Math.log2(trained) ? sum + share : sum), 0)

  const span = 1 + Math.log2(longest)
  const octave = (/** @type {number} */ n) => (n < 1 ? n : 1 + Math.log2(n)) // one unit for each doubling
  const charts = (/** @type {number} */ width) => ({ left: 46, width: width - 54 })
  stage.canvas({
    label: () =>
      `${family.value}: ${text()} equal tokens. Shares of the distances 0, 1, 2 to 3, and so on, each range twice as wide: ${shares().map(percent).join(", ")}`,
    ratio: () => TOP + BOTTOM + 56,
    draw: (ctx, width, _height, look) => {
      const above = { ...charts(width), top: 8, height: TOP - 8 }
      const upper = axes(ctx, look, above, { x: [0, span], y: [low, high], xticks: [], ylabel: "bias B(Δ)" })
      const values = curve()
      const xs = Array.from(values).flatMap((_, n) => [octave(n), octave(n + (family.value === "T5" ? 1 : 0))])
      const ys = xs.map((_, i) => Math.max(values[i >> 1], low - 1))
      line(ctx, upper, xs, ys, look.series[0], 2.4)

      const edgeOf = (/** @type {number} */ s) => octave(s ? starts[s - 1] : 0)
      const middle = (edgeOf(bucket) + edgeOf(Math.min(bucket + 1, starts.length))) / 2
      if (family.value === "T5") dot(ctx, upper.x(middle), upper.y(table[bucket]), look.series[1], 5)

      const parts = shares()
      const most = 1.12 * Math.max(0.18, ...parts)
      const box = { ...charts(width), top: TOP + 14, height: BOTTOM }
      const xticks = parts.map((_, i) => i).filter((i) => i % (width < 500 ? 3 : 1) === 0)
      const to = axes(ctx, look, box, {
        x: [0, span],
        y: [0, most],
        xticks,
        xformat: (i) => short(i && 2 ** (i - 1)),
        yformat: percent,
        xlabel: "distance Δ, from here to the next mark",
        ylabel: "share",
      })
      parts.forEach((share, i) => {
        const far = i > Math.log2(trained)
        fill(ctx, look.series[far ? 1 : 0], to.x(i) + 1, to.y(share), to.x(1) - to.x(0) - 2, to.y(0) - to.y(share))
        const label = share < 0.005 ? "" : String(Math.round(100 * share))
        const color = look.letters[far ? 1 : 0]
        write(ctx, look, label, to.x(i + 0.5), to.y(share) - 7, { size: 11, align: "center", color })
      })
      const edge = to.x(1 + Math.log2(trained))
      fill(ctx, look.soft, edge - 0.5, upper.y(high), 1, to.y(0) - upper.y(high))
      const style = { color: look.letters[1], weight: 700, halo: true }
      write(ctx, look, `beyond ${trained}: ${percent(beyond())}`, edge + 6, 16, style)
    },
    point: ({ x, y, width, down }) => {
      if (!down || family.value !== "T5" || y > TOP) return
      const chart = charts(width)
      const u = (span * (x - chart.left)) / chart.width
      knob("bucket").value = t5Bucket(-Math.floor(u < 1 ? 0 : 2 ** (u - 1)), starts, false)
      bucket = knob("bucket").value
      knob("its bias").value = high - ((y - 8) / (TOP - 8)) * (high - low)
    },
    arrows: { x: doublings },
  })
  stage.say(() => {
    const [last, before] = shares().reverse()
    const long = text().toLocaleString("en")
    return `${family.value}: of ${long} equal tokens, the last gives ${percent(beyond())} of its weight to those beyond the nearest ${trained}. The distances from ${(text() / 2).toLocaleString("en")} on get ${percent(last)}, those of the doubling before ${percent(before)}.`
  })
}

/** @param {number} share */
const percent = (share) => `${(100 * share).toFixed(share && share < 0.0995 ? 1 : 0)}%`
