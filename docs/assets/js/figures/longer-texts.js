// A real model beyond its training length: the loss by position with each context extension, and with a short context.

import { handle } from "../kit/controls.js"
import { axes, dashed, dot, faint, fixed, line, short, stroke, write } from "../kit/plot.js"

/** Losses of each `bin` tokens by kind; `near`: the loss of some of these bins with only one bin of text before each.
 * @typedef {{ times: number, loss: Record<string, number[]>, near: { bins: number[], loss: number[] } }} Text */

/** @param {import("../kit/stage.js").Stage} stage */
export default function longerTexts(stage) {
  /** @type {{ bin: number, trained: number, plain: string, first: string, bet: string[], right: number,
   *   holds: number, texts: Text[] }} */
  const { bin, trained, plain, first, bet, right, holds, texts } = stage.data
  const names = texts.map(({ times }) => `${times} times the length`)

  stage.predict(
    `No context extension. The training length is ${short(trained)} tokens. Where does the loss begin to rise?`,
    bet,
    (answer) => {
      ;[length.value, kind.value, position.value] = [names[texts.length - 1], plain, Math.floor(holds / bin)]
      const verdict = answer === bet[right] ? "Yes" : `No: ${bet[right]}`
      return `${verdict}. Up to ${short(holds)} tokens its loss stays where it was, and by twice the length it has risen by ${fixed(risen(), 1)} nats.`
    },
  )
  const length = stage.choice("text", names, names[texts.length - 1])
  const kind = stage.select("method", Object.keys(texts[0].loss), first)
  const last = texts[texts.length - 1].loss[plain].length - 1
  const show = (/** @type {number} */ n) => `${short(n * bin)}–${short((n + 1) * bin)}`
  const position = stage.slider("tokens", { min: 0, max: last, value: Math.floor(last / 2), step: 1, show })

  const text = () => texts[names.indexOf(length.value)]
  const at = () => Math.min(position.value, text().loss[plain].length - 1)
  const mean = (/** @type {number[]} */ all) => all.reduce((sum, one) => sum + one, 0) / all.length
  const whole = (/** @type {number[]} */ loss) => loss.slice(0, trained / bin)
  const risen = () => {
    const loss = texts[texts.length - 1].loss[plain]
    const twice = loss.slice((2 * trained) / bin - 2, (2 * trained) / bin)
    return mean(twice) - mean(whole(loss))
  }
  /** What a context extension costs within the training length. */
  const price = () => mean(whole(text().loss[kind.value])) - mean(whole(text().loss[plain]))

  stage.canvas({
    label: () =>
      `Loss by position, up to ${text().times} times the training length. ${kind.value}: ` +
      `${fixed(text().loss[kind.value][at()], 2)} nats at tokens ${show(at())}`,
    ratio: (width) => (width < 520 ? 300 : 310),
    draw: (ctx, width, height, look) => {
      const { loss, near, times } = text()
      const all = Object.values(loss).flat()
      const box = { left: 40, top: 26, width: width - 52, height: height - 74 }
      const x = [0, (times * trained) / 1000]
      const xticks = Array.from({ length: 5 }, (_, i) => (i * times * trained) / 4000)
      const xformat = (/** @type {number} */ value) => fixed(value, 1)
      const labels = {
        xlabel: "position, thousands of tokens",
        title: `loss, nats per token; dots: ${short(bin)} tokens of context`,
      }
      const y = [Math.min(...all, ...near.loss) - 0.15, Math.max(...all) + 0.15]
      const to = axes(ctx, look, box, { x, y, xticks, xformat, ...labels })
      const middle = (/** @type {number} */ n) => ((n + 0.5) * bin) / 1000
      const edge = to.x(trained / 1000)
      dashed(ctx, [4, 4], () => stroke(ctx, [edge, box.top], [edge, box.top + box.height], look.soft, 1.2))
      write(ctx, look, "training length", edge + 4, box.top + 8, { size: 11, color: look.soft })
      const positions = loss[plain].map((_, n) => middle(n))
      const draw = (/** @type {string} */ name, /** @type {string} */ ink, /** @type {number} */ wide) =>
        line(ctx, to, positions, loss[name], ink, wide)
      const others = Object.keys(loss).filter((name) => name !== kind.value)
      for (const name of others)
        faint(ctx, name === plain ? 0.9 : 0.35, () => draw(name, name === plain ? look.series[1] : look.soft, 1.5))
      const color = kind.value === plain ? look.series[1] : look.series[0]
      draw(kind.value, color, 2.6)
      const right = box.left + box.width
      const named = (/** @type {string} */ name, /** @type {string} */ ink) => {
        const high = Math.max(...loss[name].slice(-4))
        write(ctx, look, name, right, to.y(high) - 9, { align: "right", size: 11.5, weight: 700, color: ink })
      }
      named(plain, look.letters[1])
      if (kind.value !== plain) named(kind.value, look.letters[0])
      near.bins.forEach((n, i) => dot(ctx, to.x(middle(n)), to.y(near.loss[i]), look.ink, 3))
      dot(ctx, to.x(middle(at())), to.y(loss[kind.value][at()]), color, 5)
    },
    point: ({ x, width }) => {
      const bins = text().loss[plain].length
      position.value = Math.min(bins - 1, Math.max(0, Math.floor(((x - 40) / (width - 52)) * bins)))
    },
    arrows: { x: handle(at, (n) => (position.value = n)) },
  })
  stage.say(() => {
    const { loss, near } = text()
    const here = loss[kind.value][at()]
    const known = near.bins.indexOf(at())
    const method =
      kind.value === plain
        ? `No context extension.`
        : `${kind.value} costs ${fixed(price(), 2)} nats per token within the training length.`
    const untouched = kind.value === plain ? "" : `, as it is ${fixed(loss[plain][at()], 2)}`
    const recent =
      known < 0 ? "" : ` The same tokens with only ${short(bin)} before them: ${fixed(near.loss[known], 2)}.`
    return `${method} At tokens ${show(at())} the loss is ${fixed(here, 2)}${untouched}.${recent}`
  })
}
