// The wavelength of each pair: a slider walks over the pairs of channels.

import { axes, dot, line, short } from "../kit/plot.js"

/** @param {import("../kit/stage.js").Stage} stage */
export default function NAME(stage) {
  /** @type {number[]} */
  const lengths = stage.data // what `data="…"` of the block computes: no number is typed here
  const pairs = lengths.map((_, i) => i)
  const last = lengths.length - 1

  const pair = stage.slider("pair of channels", { min: 0, max: last, value: 8 })

  stage.canvas({
    label: () => `A rising line of ${lengths.length} lengths, with a dot at pair ${pair.value}`,
    ratio: 0.4,
    draw: (ctx, width, height, look) => {
      const box = { left: 44, top: 12, width: width - 56, height: height - 56 }
      const to = axes(ctx, look, box, {
        x: [0, last],
        y: [0, Math.log10(lengths[last])],
        xlabel: "pair of channels",
        ylabel: "positions, powers of ten",
      })
      line(ctx, to, pairs, lengths.map(Math.log10), look.series[0])
      dot(ctx, to.x(pair.value), to.y(Math.log10(lengths[pair.value])), look.series[1])
    },
  })
  stage.say(() => `The wavelength of pair ${pair.value} is ${short(lengths[pair.value], 4)} positions.`)
}
