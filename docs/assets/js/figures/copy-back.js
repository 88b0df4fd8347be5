// A model that has learned to name the token four back, extended by every factor: which token does it name?

import { axes, dot, fill, line, percent, write } from "../kit/plot.js"

/** @import { Scales } from "../kit/plot.js" */

/** @param {import("../kit/stage.js").Stage} stage */
export default function copyBack(stage) {
  /** @type {{ s: number[], answers: Record<string, number[][]>, back: number, guess: number, start: number }} */
  const { s, answers, back, guess, start } = stage.data
  const [first] = Object.keys(answers)
  const colors = [1, 2, 0] // those of the chapter's recipes
  const show = (/** @type {number} */ v) => String(s[Math.floor(v)])
  const step = stage.film("factor", { min: 0, max: s.length - 1, value: s.indexOf(start), rate: 4, show })
  const hits = (/** @type {string} */ name) => answers[name][Math.floor(step.value)]
  const peak = (/** @type {number[]} */ row) => [row.indexOf(Math.max(...row)) + 1, Math.max(...row)]
  const offsets = answers[first][0].map((_, k) => k + 1)
  const reading = () => {
    const [far, share] = peak(hits(first))
    const factor = s[Math.floor(step.value)]
    const also = Object.keys(answers)
      .map((name) => `${name} in ${percent(hits(name)[back - 1])}`)
      .join(", ")
    const why = far === back * factor ? ` (${back} × ${factor})` : ""
    return `Extended by ${factor}, ${first} names the token ${far}${why} back in ${percent(share)} of positions. The token ${back} back: ${also}.`
  }

  /** @type {Scales} */
  let to
  stage.canvas({
    label: reading,
    ratio: () => 264,
    draw: (ctx, width, height, look) => {
      const box = { left: 46, top: 28, width: width - 58, height: height - 76 }
      to = axes(ctx, look, box, {
        x: [0.5, offsets.length + 0.5],
        y: [0, 1],
        xticks: offsets.filter((k) => k % back === 0),
        yticks: [0, guess, 0.5, 1],
        yformat: (v) => (v === guess ? "guess" : percent(v)),
        xlabel: "the answer is the token k back",
        title: "Share of positions",
      })
      fill(ctx, look.soft, box.left, to.y(guess), box.width, 1)
      const legend = { align: /** @type {const} */ ("right"), color: look.letters[1], size: 11.5 }
      write(ctx, look, `dots: ${first}’s peak at every factor`, box.left + box.width, to.y(0.94), legend)
      ctx.globalAlpha = 0.35
      for (const [far, share] of answers[first].map(peak)) dot(ctx, to.x(far), to.y(share), look.series[1], 2.5)
      ctx.globalAlpha = 1
      for (const [k, name] of [...Object.keys(answers).entries()].reverse()) {
        const row = hits(name)
        const [far, share] = peak(row)
        const [x, y] = [to.x(far), to.y(share)]
        line(ctx, to, offsets, row, look.series[colors[k]], k ? 1.6 : 2.6)
        row.forEach((share, i) => dot(ctx, to.x(i + 1), to.y(share), look.series[colors[k]], k ? 2 : 3))
        const style = { color: look.letters[colors[k]], halo: true }
        if (k) write(ctx, look, name, x + 9, y + (k > 1 ? 1 : 14), style)
        else write(ctx, look, name, x, y - 12, { ...style, align: "center", weight: 700 })
      }
    },
    point: ({ x, down }) => {
      if (down) step.value = Math.round((to.atX(x) / back - s[0]) / (s[1] - s[0]))
    },
    arrows: { x: step },
  })
  stage.say(reading)
}
