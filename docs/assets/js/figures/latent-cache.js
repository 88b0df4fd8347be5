// What a token takes in the KV cache of a layer: keys and values of all heads, of groups, of one, or a latent.

import { fill, short, write } from "../kit/plot.js"
import { perToken } from "../math/latents.js"

const ROW = 34 // pixels
const LEFT = 76

/** @param {import("../kit/stage.js").Stage} stage */
export default function latentCache(stage) {
  /** @type {{ heads: number, groups: number, width: number, latent: number, rotary: number, answers: number[] }} */
  const { heads: h, groups: g, width: d, latent: l, rotary: r, answers } = stage.data
  const usual = perToken({ heads: h, groups: g, width: d, latent: l, rotary: r })

  stage.predict(
    `${h} heads of ${d} channels keep ${short(usual["each head"])} numbers a token in each layer. How many does DeepSeek-V2 keep?`,
    answers.map((count) => short(count)),
    (answer) => {
      ;[heads.value, width.value, latent.value, rotary.value] = [h, d, l, r]
      const right = answer === short(usual.latent)
      return `${right ? "Yes" : "No"}: ${short(usual.latent)}, a latent of ${l} and a rotated key of ${r}. Now take half of the heads away, and see whose cache shrinks.`
    },
  )
  const heads = stage.slider("heads", { min: 1, max: 2 * h, value: h })
  const width = stage.slider("channels a head", { min: 16, max: 2 * d, value: d, step: 16 })
  const latent = stage.slider("latent", { min: 0, max: 4 * l, value: l, step: 32 })
  const rotary = stage.slider("rotated key", { min: 0, max: 4 * r, value: r, step: 2 })

  const now = () =>
    perToken({
      heads: heads.value,
      groups: Math.min(g, heads.value),
      width: width.value,
      latent: latent.value,
      rotary: rotary.value,
    })
  stage.canvas({
    label: () =>
      Object.entries(now())
        .map(([kind, numbers]) => `${kind}: ${short(numbers)}`)
        .join("; "),
    ratio: () => 4 * ROW + 8,
    draw: (ctx, canvas, _height, look) => {
      const all = Object.entries(now())
      const most = Math.max(...all.map(([, numbers]) => numbers))
      const scale = (canvas - LEFT - 76) / most
      all.forEach(([kind, numbers], i) => {
        const y = 4 + i * ROW
        write(ctx, look, kind, LEFT - 8, y + ROW / 2, { align: "right" })
        fill(ctx, look.series[kind === "latent" ? 1 : 0], LEFT, y + 5, Math.max(1, numbers * scale), ROW - 10)
        write(ctx, look, short(numbers), LEFT + numbers * scale + 8, y + ROW / 2, { weight: 700 })
      })
    },
  })
  stage.say(() => {
    const { "each head": all, latent: few } = now()
    return `A latent of ${latent.value} and a rotated key of ${rotary.value} are ${short(few)} numbers a token and layer; keys and values of ${heads.value} heads are ${short(all)}, ${short(all / few, 2)} times as many.`
  })
}
