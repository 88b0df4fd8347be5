// Which encoding can do what: bars are means, dots are seeds. Beyond the training length a task opens with a bet.

import { handle, make } from "../kit/controls.js"
import { axes, dashed, dot, faint, fill, frame, line, percent, write } from "../kit/plot.js"

/** @import { Box, Ctx, Look } from "../kit/plot.js" */
/** @typedef {{ name: string, kind: number, shares: number[][][] }} Row the shares by question, length and seed */
/** @typedef {{ questions: string[], lengths: number[], guess: number, first: string, near: number,
 *   kinds: [number, string][], rows: Row[] }} Labs */

const [HEAD, ROW] = [38, 21]

/** @param {import("../kit/stage.js").Stage} stage */
export default function capabilityMatrix(stage) {
  /** @type {Labs} */
  const { questions, lengths, guess, first, near, kinds, rows } = stage.data
  const names = rows.map((row) => row.name)
  const [trained, longest] = [lengths[0], lengths[lengths.length - 1]]
  /** @type {Map<string, string>} the encoding that the reader has bet on, by question; none where all was opened */
  const bets = new Map()

  const task = stage.add(make("p"))
  const question = stage.choice("task", questions)
  const encoding = stage.select("encoding", names, first)
  const length = stage.choice("tokens", lengths.map(String))
  const sorted = stage.toggle("best first")
  stage.bar = null // the buttons' words change: in a row of their own they push nothing
  const bet = stage.button("Bet", () => {
    const next = questions.find((q) => !bets.has(q))
    if (!bets.has(question.value)) bets.set(question.value, encoding.value)
    else if (next) question.value = next
    else bets.clear()
    length.value = String(bets.has(question.value) ? longest : trained)
  })
  const reveal = stage.button("Open all", () => {
    for (const q of questions) if (!bets.has(q)) bets.set(q, "")
    length.value = String(longest)
  })

  const row = () => rows[names.indexOf(encoding.value)]
  const column = () => questions.indexOf(question.value)
  const at = () => lengths.indexOf(Number(length.value))
  const open = (/** @type {number} */ q, l = at()) => l === 0 || bets.has(questions[q])
  const share = (/** @type {Row} */ { shares }, q = column(), l = at()) => mean(shares[q][l])
  const ranked = (q = column(), l = at()) => rows.toSorted((a, b) => share(b, q, l) - share(a, q, l))
  const order = () => (sorted.value && open(column()) ? ranked() : rows)
  const won = (/** @type {string} */ q) => {
    const [n, last] = [questions.indexOf(q), lengths.length - 1]
    const chosen = rows.find(({ name }) => name === bets.get(q))
    return chosen && share(chosen, n, last) >= share(ranked(n, last)[0], n, last) - near
  }

  stage.each(() => {
    const here = bets.has(question.value)
    const done = questions.every((q) => bets.has(q))
    bet.textContent = !here ? `Bet on ${encoding.value}` : done ? "Close all, bet again" : "Next task"
    reveal.disabled = done
    const still = `Trained on ${trained} tokens: which encoding still solves “${question.value}”`
    task.textContent = here ? `${still}, and at what length?` : `${still} at ${longest} tokens? Pick a row and bet.`
  })

  const places = (/** @type {number} */ width) => {
    const wide = width >= 560
    const left = wide ? 124 : 102
    const cell = ((wide ? width * 0.68 : width - 2) - left) / questions.length
    const foot = HEAD + rows.length * ROW + 24
    const chart = wide
      ? { left: width * 0.68 + 46, top: HEAD, width: width * 0.32 - 54, height: foot - HEAD - 64 }
      : { left: 40, top: foot + 36, width: width - 52, height: 140 }
    return { wide, left, cell, chart, height: wide ? foot + 4 : foot + 216 }
  }

  stage.canvas({
    label: () =>
      `Table of ${rows.length} encodings and ${questions.length} tasks at ${length.value} tokens. ` +
      `${encoding.value}, ${question.value}: ${lengths.map((l, i) => `${open(column(), i) ? percent(share(row(), column(), i)) : "closed"} at ${l}`).join(", ")}`,
    ratio: (width) => places(width).height,
    draw: (ctx, width, _height, look) => {
      const { wide, left, cell, chart } = places(width)
      const sequence = order()
      ctx.fillStyle = look.ground
      ctx.fillRect(0, HEAD + sequence.indexOf(row()) * ROW, left + cell * questions.length, ROW)
      ctx.fillRect(left + cell * column(), 0, cell - 4, HEAD + rows.length * ROW)
      questions.forEach((text, q) => {
        const lines = text.replace(" ", "\n").split("\n")
        const weight = q === column() ? 700 : 400
        lines.forEach((word, n) =>
          write(ctx, look, word, left + cell * q + 3, HEAD - 24 + n * 14, { size: wide ? 11.5 : 11, weight }),
        )
      })
      sequence.forEach((entry, n) => {
        const y = HEAD + (n + 0.5) * ROW
        const bold = entry === row() ? 700 : 400
        write(ctx, look, entry.name, left - 8, y, { align: "right", weight: bold, color: look.letters[entry.kind] })
        questions.forEach((_text, q) => {
          const x = left + cell * q + 3
          if (!open(q)) return write(ctx, look, "?", x + cell / 2 - 5, y, { align: "center", color: look.soft })
          if (wide) write(ctx, look, share(entry, q).toFixed(2), x, y, { size: 11.5, weight: bold })
          const from = wide ? x + 27 : x
          const room = left + cell * (q + 1) - 8 - from
          faint(ctx, 0.3, () => fill(ctx, look.series[entry.kind], from, y - 6, room * share(entry, q), 12))
          for (const value of entry.shares[q][at()]) dot(ctx, from + room * value, y, look.series[entry.kind], 2.2)
        })
      })
      let end = 2
      for (const [kind, word] of kinds) {
        dot(ctx, end + 3, HEAD + rows.length * ROW + 14, look.series[kind])
        write(ctx, look, word, end + 11, HEAD + rows.length * ROW + 14, { color: look.letters[kind], size: 11.5 })
        end += ctx.measureText(word).width + (wide ? 24 : 16)
      }
      ctx.strokeStyle = look.ink
      ctx.strokeRect(left + cell * column(), HEAD + sequence.indexOf(row()) * ROW, cell - 4, ROW)
      follow(ctx, look, chart)
    },
    point: ({ x, y, width, down }) => {
      const { left, cell } = places(width)
      const [q, n] = [Math.floor((x - left) / cell), Math.floor((y - HEAD) / ROW)]
      if (!down || !(n in rows) || q >= questions.length) return
      encoding.value = order()[n].name
      if (q >= 0) question.value = questions[q]
    },
    arrows: {
      x: handle(column, (q) => (question.value = questions[q] ?? question.value)),
      y: handle(
        () => order().indexOf(row()),
        (n) => (encoding.value = order()[n]?.name ?? encoding.value),
      ),
    },
  })

  /** The chosen question over the lengths: every encoding faint, the chosen one with its seeds.
   * @type {(ctx: Ctx, look: Look, box: Box) => void} */
  const follow = (ctx, look, box) => {
    const x = [trained * 0.87, longest * 1.15]
    const ticks = { xticks: lengths, yticks: [0, 0.5, 1], logx: true }
    const labels = { xlabel: "tokens", ylabel: "share of right answers", title: question.value }
    const to = axes(ctx, look, box, { x, y: [0, 1.02], ...ticks, ...labels })
    const opened = lengths.map((_l, i) => open(column(), i))
    const curve = (/** @type {Row} */ each) => lengths.map((_l, i) => (opened[i] ? share(each, column(), i) : NaN))
    dashed(ctx, [4, 3], () => line(ctx, to, x, [guess, guess], look.soft, 0.8))
    ctx.globalAlpha = 0.35
    for (const entry of rows) {
      const color = look.series[entry.kind]
      line(ctx, to, lengths, curve(entry), color, 1.1)
      if (!opened[lengths.length - 1]) dot(ctx, to.x(trained), to.y(share(entry, column(), 0)), color, 2.5)
    }
    ctx.globalAlpha = 1
    const color = look.series[row().kind]
    line(ctx, to, lengths, curve(row()), color, 2.4)
    lengths.forEach((l, i) => {
      if (opened[i]) for (const value of row().shares[column()][i]) dot(ctx, to.x(l), to.y(value), color, 3)
      else write(ctx, look, "?", to.x(l), to.y(0.5), { align: "center", size: 15, color: look.soft })
    })
    frame(ctx, look.ink, 1, to.x(Number(length.value)) - 7, box.top - 4, 14, box.height + 4)
  }

  stage.say(() => {
    const name = encoding.value
    if (!open(column()))
      return `“${question.value}” is closed at ${length.value} tokens. Bet on ${name}, or on another.`
    const shares = row().shares[column()][at()]
    const seeds = shares.map((share) => percent(share)).join(", ")
    const kind = kinds.find(([color]) => color === row().kind)?.[1]
    const answer = `${name} (${kind}) answers ${percent(share(row()))} of “${question.value}” right at ${length.value} tokens (seeds: ${seeds}).`
    if (at() === 0 && !bets.has(question.value)) return `${answer} And at ${longest}?`
    const best = ranked()[0]
    const isBest = share(best) === share(row())
    const top = isBest ? "No other does better." : `The best, ${best.name}: ${percent(share(best))}.`
    const own = bets.get(question.value)
    const mine = own && `You bet on ${own}: ${won(question.value) ? "well bet" : "lost"}.`
    const placed = questions.filter((q) => bets.get(q))
    const tally = `Bets within ${Math.round(100 * near)} points of the best: ${placed.filter(won).length} of ${placed.length}.`
    return [answer, top, mine, placed.length > 1 && tally].filter(Boolean).join(" ")
  })
}

/** @param {number[]} numbers */
const mean = (numbers) => numbers.reduce((a, b) => a + b, 0) / numbers.length
