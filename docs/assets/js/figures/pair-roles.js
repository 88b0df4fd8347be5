// Which pairs a head uses: a map of all heads by what they attend to, and the bars of one of the four strongest.

import { heat } from "../kit/heat.js"
import { axes, circle, fill, fixed, frame, percent, short, stroke, write } from "../kit/plot.js"

/** @import { Box } from "../kit/plot.js" */
/** @typedef {{ name: string, share: number[][], heads: [number, number][], parts: number[][] }} Kind */

const [CELL, LEFT, TOP] = [9, 52, 24] // of the map, in pixels: the height of a head, and where it begins
const QUARTERS = ["0-7", "8-15", "16-23", "24-31"]
const TICKS = [0, 8, 16, 24, 31]
const ANSWERS = ["the highest frequencies", "wavelengths near 127 tokens", "the lowest frequencies"]

/** @param {import("../kit/stage.js").Stage} stage */
export default function pairRoles(stage) {
  /** @type {{ kinds: Record<string, Kind>, wavelengths: number[], colors: string[] }} */
  const { kinds, wavelengths, colors } = stage.data
  const names = Object.keys(kinds)
  const [layers, count] = [kinds[names[0]].share.length, kinds[names[0]].share[0].length]
  const top = Math.ceil(Math.max(...names.flatMap((name) => kinds[name].parts.flat())))

  stage.predict("Which pairs carry the choice of an induction head?", ANSWERS, (answer) => {
    kind.value = "induction"
    const sums = quarters()
    return `${answer === ANSWERS[2] ? "Yes." : "No."} Pairs 24-31 bring ${fixed(sums[3], 1)} of ${fixed(total(), 1)} logits, and pairs 0-7 bring ${fixed(sums[0], 1)}.`
  })
  const kind = stage.choice(
    "heads that attend to",
    names.map((name) => /** @type {[string, string]} */ ([name, kinds[name].name])),
  )
  const rank = stage.slider("head", {
    min: 0,
    max: kinds[names[0]].heads.length - 1,
    value: 0,
    show: (n) => `${n + 1} of ${kinds[names[0]].heads.length}`,
  })

  const here = () => kinds[kind.value]
  const parts = () => here().parts[rank.value]
  const sum = (/** @type {number[]} */ values) => values.reduce((a, b) => a + b, 0)
  const total = () => sum(parts())
  const quarters = () => QUARTERS.map((_q, n) => sum(parts().slice(8 * n, 8 * n + 8)))
  /** @param {number} width @returns {Box} */
  const map = (width) => ({ left: LEFT, top: TOP, width: width - LEFT - 12, height: CELL * count })
  const foot = TOP + CELL * count
  const at = (/** @type {Box} */ box, /** @type {[number, number]} */ [layer, head]) => ({
    x: box.left + (layer * box.width) / layers,
    y: box.top + head * CELL,
    width: box.width / layers,
  })

  stage.canvas({
    label: () => {
      const [layer, head] = here().heads[rank.value]
      return (
        `Map of ${layers} layers by ${count} heads, bright where a head attends to ${here().name}; ` +
        `bars of the ${parts().length} pairs of layer ${layer}, head ${head}: ` +
        QUARTERS.map((name, n) => `pairs ${name} ${fixed(quarters()[n], 1)}`).join(", ")
      )
    },
    ratio: () => foot + 268,
    draw: (ctx, width, _height, look) => {
      const box = map(width)
      write(ctx, look, `weight on ${here().name}`, box.left, TOP - 11, { weight: 700, size: 12.5 })
      const cells = Array.from({ length: count }, (_h, head) => here().share.map((row) => row[head])).flat()
      heat(ctx, box, cells, layers, { map: "viridis", low: 0, high: 100 })
      for (const [n, head] of here().heads.entries()) {
        const { x, y, width: cell } = at(box, head)
        if (n === rank.value) frame(ctx, look.ink, 2, x - 1.5, y - 1.5, cell + 3, CELL + 3)
        else circle(ctx, x + cell / 2, y + CELL / 2, 5.5, look.series[1], 1.4)
      }
      for (const layer of [0, 10, 20, layers - 1]) {
        const x = box.left + ((layer + 0.5) * box.width) / layers
        write(ctx, look, String(layer), x, foot + 4, { size: 11, align: "center", base: "top" })
      }
      write(ctx, look, "layer", box.left + box.width / 2, foot + 18, { align: "center", base: "top" })
      write(ctx, look, "head", box.left - 6, TOP + (CELL * count) / 2, { align: "right" })

      const [layer, head] = here().heads[rank.value]
      const to = axes(
        ctx,
        look,
        { left: LEFT, top: foot + 62, width: width - LEFT - 12, height: 150 },
        {
          x: [-0.7, wavelengths.length - 0.3],
          y: [-1, top],
          xticks: TICKS,
          xformat: (i) => `${i}`,
          ylabel: "logit",
          title: `layer ${layer}, head ${head}: what each pair adds`,
        },
      )
      const bar = to.x(0.8) - to.x(0)
      parts().forEach((part, i) =>
        fill(ctx, colors[i], to.x(i) - bar / 2, Math.min(to.y(part), to.y(0)), bar, Math.abs(to.y(part) - to.y(0))),
      )
      stroke(ctx, [to.x(-0.7), to.y(0)], [to.x(wavelengths.length - 0.3), to.y(0)], look.soft, 0.8)
      const under = to.y(-1)
      for (const i of TICKS) {
        const align = i ? "center" : "left"
        write(ctx, look, short(wavelengths[i]), to.x(i) - (i ? 0 : 4), under + 25, {
          size: 10.5,
          align,
          color: look.soft,
        })
      }
      const words = "pair, and under it its wavelength in tokens"
      write(ctx, look, words, LEFT + (width - LEFT - 12) / 2, under + 42, { align: "center" })
    },
    point: ({ x, y, width, down }) => {
      if (!down) return
      const box = map(width)
      const near = here().heads.findIndex((head) => {
        const cell = at(box, head)
        return Math.abs(x - cell.x - cell.width / 2) < 14 && Math.abs(y - cell.y - CELL / 2) < 14
      })
      if (near >= 0) rank.value = near
    },
    arrows: { x: rank },
  })

  stage.say(() => {
    const [layer, head] = here().heads[rank.value]
    const each = quarters().map((value, n) => `pairs ${QUARTERS[n]} ${fixed(value, 1)}`)
    return `Layer ${layer}, head ${head} gives ${percent(here().share[layer][head] / 100)} of its weight to ${here().name}. Of the ${fixed(total(), 1)} logits by which that key leads, ${each.join(", ")}.`
  })
}
