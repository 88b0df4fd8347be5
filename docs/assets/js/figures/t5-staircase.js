// T5's buckets as a staircase, and under it what a shared step costs a layer that has to copy.

import { axes, dot, line, write } from "../kit/plot.js"
import { largestShare } from "../math/bags.js"
import { t5Bucket, t5Starts } from "../math/biases.js"

const [LEFT, RIGHT] = [46, 12]
const STAIRS = { top: 24, height: 150 }
const COSTS = { top: 210, height: 105 }
const BAG = { top: 386, height: 60 }
const TILE = 16

/** @param {import("../kit/stage.js").Stage} stage */
export default function t5Staircase(stage) {
  /** @type {{ text: string, reach: number, own: number[], small: number[], edge: number, buckets: number[],
   *   most: number[] }} */
  const { text, reach, own, small, edge, buckets, most } = stage.data
  const letters = [...new Set(text)].sort()
  let open = false // the costs stay hidden until the reader has answered, or moved something
  let texts = 0

  stage.predict(
    `Up to ${edge - 1} back each distance has its own bucket, and T5's decoder can copy without an error. And from ${edge} back, at best?`,
    ["nearly always right", "two times in three", "less than every other time"],
    (answer) => {
      show([...own, edge])
      const { share, bag } = bucketAt(edge)
      return `${answer.startsWith("less") ? "Yes." : "Less."} ${bag.length} distances share a number now, so the layer reads a bag of ${bag.length} letters. Naming one of them is right in ${share.toFixed(2)} of all cases.`
    },
  )
  const ways = stage.choice("offsets", ["back", "both ways"])
  const count = stage.slider("buckets", { min: buckets[0], max: buckets[1], step: 2, value: own[0] })
  const last = stage.slider("max_distance", { min: most[0], max: most[1], value: own[1] })
  const p = stage.slider("offset Δ", { min: 0, max: reach, value: edge - 1, show: where })
  stage.button("the small T5", () => show(small))
  stage.button("another text", () => texts++)
  stage.element.addEventListener("input", () => (open = true), { signal: stage.signal })

  /** @type {number[]} */
  let rows = [] // the bucket of each offset from p.min on
  const sort = () => {
    const both = ways.value !== "back"
    const low = both ? -reach : 0
    if (p.min !== low) p.min = low
    const starts = t5Starts(count.value, last.value, both)
    rows = Array.from({ length: reach - low + 1 }, (_, i) => t5Bucket(-i - low, starts, both)) // T5: key minus query
    open ||= p.value !== edge - 1
  }
  /** @param {number[]} state */
  const show = (state) => {
    ways.value = "back"
    ;[count.value, last.value, p.value] = state
    sort()
  }
  /** @type {number[]} */
  const shares = []
  const share = (/** @type {number} */ size) => (shares[size] ??= largestShare(size, letters.length))
  /** Who shares the bucket of an offset, and what stands there. @param {number} offset */
  const bucketAt = (offset) => {
    const bucket = rows[offset - p.min]
    const [from, to] = [rows.indexOf(bucket) + p.min, rows.lastIndexOf(bucket) + p.min]
    const letter = (/** @type {number} */ o) => text[(o + reach + texts * edge) % text.length]
    const bag = Array.from({ length: to - from + 1 }, (_, i) => letter(from + i))
    const counts = letters.map((kind) => bag.filter((other) => other === kind).length)
    const most = Math.max(...counts)
    return { bucket, from, to, bag, counts, most, wanted: letter(offset), share: share(bag.length) }
  }

  stage.each(sort)
  stage.canvas({
    label: () =>
      `A staircase of ${count.value} buckets over offsets; the best accuracy of copying from each offset; the letters that share bucket ${bucketAt(p.value).bucket}. The arrow keys move the offset`,
    ratio: () => BAG.top + BAG.height + 46,
    draw: (ctx, width, _height, look) => {
      const { bucket, from, to, bag, counts, most, wanted, share: best } = bucketAt(p.value)
      const x = [p.min - 0.5, reach + 0.5]
      const across = { left: LEFT, width: width - LEFT - RIGHT }
      const [upper, lower] = [STAIRS, COSTS].map((rows) => ({ ...across, ...rows }))
      const stairs = { x, y: [0, count.value], xticks: [] }
      const to1 = axes(ctx, look, upper, { ...stairs, title: "The bucket that an offset reads" })
      const chance = 1 / letters.length
      const to2 = axes(ctx, look, lower, {
        x,
        y: [0, 1],
        yticks: [chance, 0.5, 1],
        yformat: (v) => (v === chance ? `1/${letters.length}` : String(v)),
        xlabel: p.min < 0 ? "offset Δ (below 0: key ahead)" : "offset Δ, that far back",
        title: `Best accuracy of copying${open ? `: ${best.toFixed(2)}` : ""}`,
      })
      ctx.fillStyle = look.series[1]
      ctx.globalAlpha = 0.22
      const start = to1.x(from - 0.5)
      const wide = Math.max(2, to1.x(to + 0.5) - start)
      for (const { top, height } of [STAIRS, COSTS]) ctx.fillRect(start, top, wide, height)
      ctx.globalAlpha = 1

      const twice = (/** @type {number[]} */ values) => values.flatMap((v) => [v, v])
      const steps = rows.flatMap((_, i) => [i + p.min - 0.5, i + p.min + 0.5])
      const sharing = (/** @type {number} */ row) => rows.lastIndexOf(row) - rows.indexOf(row) + 1
      const costs = rows.map((row, i) => (open || i < edge ? share(sharing(row)) : NaN))
      line(ctx, to1, steps, twice(rows), look.series[0], 2)
      line(ctx, to2, x, [chance, chance], look.rule, 1)
      line(ctx, to2, steps, twice(costs), look.series[2], 2)
      dot(ctx, to1.x(p.value), to1.y(bucket), look.series[1], 5)
      if (!open) write(ctx, look, "?", to2.x(reach / 2), to2.y(0.5), { size: 30, color: look.soft, align: "center" })
      else dot(ctx, to2.x(p.value), to2.y(best), look.series[1], 5)

      const floor = BAG.top + BAG.height
      const cell = (width - 2 * RIGHT) / letters.length
      const tile = Math.min(TILE, BAG.height / most)
      const title = `What the layer reads of bucket ${bucket}: a bag of ${bag.length}`
      write(ctx, look, title, RIGHT, BAG.top - 14, { size: 12.5, weight: 700 })
      ctx.strokeStyle = look.ink
      ctx.lineWidth = 2
      counts.forEach((n, kind) => {
        const left = RIGHT + (kind + 0.5) * cell - tile / 2
        const guess = kind === counts.indexOf(most)
        const asked = letters[kind] === wanted
        ctx.fillStyle = guess ? look.series[1] : look.soft
        ctx.globalAlpha = guess ? 1 : 0.4
        for (let j = 1; j <= n; j++) ctx.fillRect(left, floor - j * tile, tile - 1, tile - 1)
        ctx.globalAlpha = 1
        if (asked) ctx.strokeRect(left, floor - tile, tile - 1, tile - 1)
        const style = { color: n ? look.ink : look.soft, weight: asked ? 700 : 400, size: 12 }
        write(ctx, look, letters[kind], left + tile / 2, floor + 12, { ...style, align: "center" })
      })
      write(ctx, look, "orange: best guess · framed: letter wanted", RIGHT, floor + 34, { size: 11.5 })
    },
    point: ({ x, width, down }) => {
      const share = (x - LEFT) / (width - LEFT - RIGHT)
      if (down) p.value = Math.round(p.min + share * (reach - p.min))
    },
    arrows: { x: p },
  })
  stage.say(() => {
    const { bucket, from, to, bag, most, share } = bucketAt(p.value)
    const here = where(p.value)
    if (from === to) return `${here} has bucket ${bucket} to itself. Copying from there can be right always: 1.00.`
    const [first, last] = from < 0 ? [-to, -from] : [from, to]
    const range = `${first} ${last === reach ? "and more" : `to ${last}`} ${from < 0 ? "ahead" : "back"}`
    return `${here} reads bucket ${bucket}, as do all of ${range}: a bag of ${bag.length} letters${last === reach ? ` if the text reaches ${reach} that way` : ""}. In this text, naming the commonest is right for ${most} of ${bag.length}; over all texts, in ${share.toFixed(2)} of all cases. Nothing does better.`
  })
}

/** @param {number} offset */
const where = (offset) => (offset < 0 ? `${-offset} ahead` : `${offset} back`)
