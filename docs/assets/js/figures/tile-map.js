// A mask, cut into tiles: what a kernel must compute, and what of it is thrown away.

import { pooled, shownInTiles, shows } from "../math/tiles.js"
import { axes, fill, percent, short, stroke, write } from "../kit/plot.js"

const WIDE = 600 // pixels from which the bars stand beside the map
const FINE = 4 // tokens in a dot of the picture

/** @param {import("../kit/stage.js").Stage} stage */
export default function tileMap(stage) {
  /** @type {{ tokens: number, tiles: number[], tile: number, window: number, starts: number[] }} */
  const { tokens, tiles, tile: usual, window, starts } = stage.data
  const widest = tiles[tiles.length - 1]

  stage.predict(
    `A window of ${window} on ${tokens.toLocaleString("en")} tokens, in tiles of ${usual}. With tiles of ${widest}, how much does the kernel compute?`,
    ["as much: the window is the same", "about half as much again", "less: there are fewer tiles"],
    (answer) => {
      ;[causal.value, width.value, documents.value, size.value] = [true, window, false, String(widest)]
      const before = measure(usual).computed
      const { computed, shown } = measure()
      return `${answer.startsWith("about") ? "Yes" : "No"}: ${(computed / before).toFixed(1)} times as much, ${percent(computed, 1)} of all pairs instead of ${percent(before, 1)}. The mask shows ${percent(shown, 1)}. A tile is computed whole if it shows a single pair.`
    },
  )
  const size = stage.choice("tile", tiles.map(String), String(usual))
  const width = stage.slider("window", { min: 1, max: tokens, value: window, show: short })
  const causal = stage.toggle("causal", true)
  const documents = stage.toggle(`${starts.length + 1} documents`)

  const mask = () => ({ causal: causal.value, width: width.value, starts: documents.value ? starts : [] })
  const tried = new Set() // the bars of the other sizes would tell too early
  let last = ""
  /** @type {Uint32Array[]} for each size of tiles */
  const levels = []
  const measure = (tile = Number(size.value)) => {
    const key = JSON.stringify(mask())
    if (key !== last) {
      levels[0] = shownInTiles(tokens, tiles[0], mask())
      for (let i = 1; i < tiles.length; i++) levels[i] = pooled(levels[i - 1])
    }
    last = key
    const counts = levels[tiles.indexOf(tile)]
    const needed = counts.filter(Boolean)
    return {
      counts,
      needed: needed.length,
      whole: needed.filter((count) => count === tile * tile).length,
      computed: needed.length / counts.length,
      shown: needed.reduce((a, b) => a + b, 0) / tokens ** 2,
    }
  }

  stage.canvas({
    label: () =>
      `${measure().needed} of ${measure().counts.length} tiles are computed; ${measure().whole} of them need no mask`,
    ratio: (wide) => (wide > WIDE ? 44 : 222) + Math.min(wide - 76, 360),
    draw: (ctx, wide, _height, look) => {
      const tile = Number(size.value)
      tried.add(tile)
      const { counts, shown } = measure()
      const side = Math.min(wide - 76, 360)
      const box = { left: 52, top: 6, width: side, height: side }
      const ends = [0, tokens]
      const labels = { xticks: ends, yticks: ends, xlabel: "key n", ylabel: "query m" }
      const to = axes(ctx, look, box, { x: ends, y: [tokens, 0], ...labels })
      const across = tokens / tile
      const cell = side / across
      const dot = (FINE / tokens) * side
      counts.forEach((count, i) => {
        const [row, column] = [Math.floor(i / across), i % across]
        if (!count) return
        const full = count === tile * tile
        fill(ctx, look.series[full ? 0 : 1], to.x(column * tile), to.y(row * tile), cell, cell)
        if (full) return
        ctx.fillStyle = look.series[0] // what shows, over what is thrown away
        for (let m = row * tile; m < (row + 1) * tile; m += FINE)
          for (let n = column * tile; n < (column + 1) * tile; n += FINE)
            if (shows(mask(), m + FINE / 2, n + FINE / 2)) ctx.fillRect(to.x(n), to.y(m), dot + 0.3, dot + 0.3)
      })
      const thick = tile < 32 ? 0.4 : 0.8
      for (let i = 0; i <= tokens; i += tile) {
        stroke(ctx, [to.x(i), to.y(0)], [to.x(i), to.y(tokens)], look.paper, thick)
        stroke(ctx, [to.x(0), to.y(i)], [to.x(tokens), to.y(i)], look.paper, thick)
      }
      const [x, top] = wide > WIDE ? [side + 100, 10] : [26, side + 64]
      ;["used", "computed, then hidden"].forEach((label, i) => {
        fill(ctx, look.series[i], x + 26 + 64 * i, top + 4, 11, 11)
        write(ctx, look, label, x + 42 + 64 * i, top + 10)
      })
      tiles.forEach((option, i) => {
        const y = top + 28 + 22 * i
        const weight = option === tile ? 700 : 400
        write(ctx, look, String(option), x + 18, y + 7, { align: "right", weight })
        if (!tried.has(option)) return write(ctx, look, "?", x + 26, y + 7, { color: look.soft })
        const { computed } = measure(option)
        const scale = wide - x - 84
        fill(ctx, look.series[1], x + 26, y, scale * computed, 14)
        fill(ctx, look.series[0], x + 26, y, scale * shown, 14)
        write(ctx, look, percent(computed, 1), x + 32 + scale * computed, y + 7, { weight })
      })
    },
  })
  stage.say(() => {
    const { counts, needed, whole, computed, shown } = measure()
    return `The mask shows ${percent(shown, 1)} of all pairs. In tiles of ${size.value} the kernel computes ${short(needed)} of ${short(counts.length)} tiles, ${short(whole)} of them without a mask, and so ${percent(computed, 1)} of the pairs. ${percent(1 - shown / computed, 1)} of its work is thrown away.`
  })
}
