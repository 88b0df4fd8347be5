// Choose the tasks that a model may meet: how far behind the best may each encoding be?

import { behind, ranked, regret } from "../math/regret.js"
import { axes, circle, dot, write } from "../kit/plot.js"

const [ROW, FOOT] = [22, 44]

/** @param {import("../kit/stage.js").Stage} stage */
export default function regretChooser(stage) {
  /** @type {{ questions: string[], lengths: number[], start: number, near: number,
   *   rows: { name: string, kind: number, free: boolean, shares: number[][] }[] }} */
  const { questions, lengths, start, near, rows } = stage.data
  const every = questions.map(() => true)
  const all = behindAt(start).map((row) => regret(row, every).by)

  stage.predict(
    `At ${start} tokens every encoding is ${short(Math.min(...all))} or more behind the best at some task. Leave out one task, and a single encoding is close to the best at all others. Which one?`,
    questions,
    (answer) => {
      ;[length.value, free.value] = [String(start), false]
      asked.forEach((box, q) => (box.value = questions[q] !== answer))
      const { order, regrets } = judge()
      const { by, q } = regrets[order[0]]
      const name = rows[order[0]].name
      return by <= near
        ? `Yes: without “${answer}” ${name} is at most ${short(by)} behind. It alone needs an absolute position.`
        : `No: without “${answer}” the least regret is still ${short(by)} (${name} at “${questions[q]}”).`
    },
  )
  const length = stage.choice("tokens", lengths.map(String), String(start))
  const free = stage.toggle("only those that write nothing per pair of tokens")
  stage.bar = null
  const asked = questions.map((question) => stage.toggle(question, true))

  /** @param {number} tokens */
  function behindAt(tokens) {
    return behind(rows.map(({ shares }) => shares[lengths.indexOf(tokens)]))
  }
  const judge = (tokens = Number(length.value)) => {
    const boxes = asked.map((box) => box.value)
    const rest = behindAt(tokens)
    const regrets = rest.map((row) => regret(row, boxes))
    const open = rows.map((row) => row.free || !free.value)
    return { boxes, rest, regrets, open, order: ranked(regrets.map(({ by }) => by), open) } // prettier-ignore
  }

  stage.canvas({
    label: () => {
      const names = judge().order.map((i) => rows[i].name)
      return `Bars, the shortest first: ${names.join(", ")}`
    },
    ratio: () => rows.length * ROW + FOOT,
    draw: (ctx, width, height, look) => {
      const wide = width > 500
      const box = { left: wide ? 128 : 106, top: 2, width: 0, height: height - FOOT }
      box.width = width - box.left - (wide ? 132 : 96)
      const to = axes(ctx, look, box, {
        x: [0, 1],
        y: [rows.length, 0],
        xticks: [0, 0.5, 1],
        yticks: [],
        xlabel: wide ? "behind the best (share of right answers)" : "behind the best",
      })
      const { boxes, rest, regrets, open, order } = judge()
      const trained = judge(lengths[0]).regrets
      order.forEach((i, n) => {
        const { name, kind } = rows[i]
        const { by, q } = regrets[i]
        const y = to.y(n + 0.5)
        ctx.globalAlpha = open[i] ? 1 : 0.3
        const weight = open[i] && by === regrets[order[0]].by ? 700 : 400
        const size = wide ? 12 : 11
        write(ctx, look, name, box.left - 8, y, { align: "right", color: look.letters[kind], weight, size })
        ctx.fillStyle = look.series[kind]
        ctx.globalAlpha *= 0.35
        ctx.fillRect(to.x(0), y - 6, to.x(by) - to.x(0), 12)
        ctx.globalAlpha = open[i] ? 1 : 0.3
        rest[i].forEach((far, k) => boxes[k] && dot(ctx, to.x(far), y, look.series[kind], 2))
        if (trained[i].q >= 0) circle(ctx, to.x(trained[i].by), y, 5, look.ink)
        const label = q < 0 ? "" : by < 0.005 ? "0.00" : `${short(by)} ${questions[q]}`
        write(ctx, look, label, box.left + box.width + 8, y, { size: wide ? 12 : 10.5, weight })
        ctx.globalAlpha = 1
      })
    },
  })
  stage.say(() => {
    const { boxes, regrets, open, order } = judge()
    const chosen = questions.filter((_, q) => boxes[q])
    if (!chosen.length) return "No task is chosen: every encoding will do."
    const [{ name }, { by, q }] = [rows[order[0]], regrets[order[0]]]
    const close = regrets.filter(({ by }, i) => open[i] && by <= near).length
    const many = chosen.length === 1 ? `“${chosen[0]}” alone` : `${chosen.length} tasks`
    const where = by < 0.005 ? `, ${short(by)}` : `, ${short(by)} at “${questions[q]}”`
    const among = `${open.filter(Boolean).length}${free.value ? " that write nothing per pair of tokens" : ""}`
    return `At ${length.value} tokens, over ${many}: ${name} has the least regret${where}. Never more than ${near} behind: ${close || "none"} of the ${among}.`
  })
}

/** @param {number} share */
const short = (share) => share.toFixed(2)
