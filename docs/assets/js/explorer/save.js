// Take it along: pictures as PNG and SVG, numbers as CSV.

import { make, press } from "../kit/controls.js"
import { look } from "../kit/paper.js"
import { write } from "../kit/plot.js"
import { rows } from "./numbers.js"
import { Vector } from "./vector.js"
import { captions } from "./words.js"

/** @import { View, Panel } from "./types.js" */

const [WIDTH, HEIGHT, HEAD, GAP] = [480, 380, 48, 16] // of a panel in a file, in pixels
const LINE = /.{1,84}(?:\s|$)/g // as much of a text as fits beside each other
const SHARP = 2

/** Draw panels side by side. @param {any} ctx @param {Panel[]} panels @param {number[]} chosen @param {View} view @param {import("../kit/paper.js").Look} style */
const compose = (ctx, panels, chosen, view, style) => {
  chosen.forEach((i, place) => {
    ctx.save()
    ctx.translate(GAP + (place % 2) * (WIDTH + GAP), GAP + Math.floor(place / 2) * (HEIGHT + HEAD + GAP))
    const [title, text] = captions(view)[i]
    write(ctx, style, title, 0, 8, { weight: 700, size: 14 })
    for (const [n, words] of (text.match(LINE) ?? []).entries())
      write(ctx, style, words, 0, 25 + 13 * n, { size: 11, color: style.soft })
    ctx.translate(0, HEAD)
    ctx.fillStyle = ctx.strokeStyle = style.ink
    ctx.lineCap = "round"
    panels[i].draw(ctx, WIDTH, HEIGHT, style, view)
    ctx.restore()
  })
}

/** @param {number} count @returns {[number, number]} */
const sized = (count) => [GAP + Math.min(count, 2) * (WIDTH + GAP), GAP + Math.ceil(count / 2) * (HEIGHT + HEAD + GAP)]

/** @param {Panel[]} panels @param {number[]} chosen @param {View} view @param {Element} element */
const svg = (panels, chosen, view, element) => {
  const pen = new Vector()
  const style = look(element)
  compose(pen, panels, chosen, view, style)
  return new Blob([pen.file(...sized(chosen.length), style.paper)], { type: "image/svg+xml" })
}

/** @param {Panel[]} panels @param {number[]} chosen @param {View} view @param {Element} element @returns {Promise<Blob | null>} */
const png = (panels, chosen, view, element) => {
  const style = look(element)
  const [width, height] = sized(chosen.length)
  const sheet = Object.assign(document.createElement("canvas"), { width: width * SHARP, height: height * SHARP })
  const ctx = /** @type {CanvasRenderingContext2D} */ (sheet.getContext("2d"))
  ctx.scale(SHARP, SHARP)
  ctx.fillStyle = style.paper
  ctx.fillRect(0, 0, width, height)
  compose(ctx, panels, chosen, view, style)
  return new Promise((done) => sheet.toBlob(done))
}

/** @param {View} view @param {number} panel */
const csv = (view, panel) => {
  const lines = rows(view, panel).map((row) => `${row.join()}\n`)
  return new Blob(lines, { type: "text/csv" })
}

/** @param {Blob | null} blob @param {string} name */
const download = (blob, name) => {
  if (!blob) return
  const address = URL.createObjectURL(blob)
  make("a", { href: address, download: name }).click()
  URL.revokeObjectURL(address)
}

const NAMES = ["pattern", "similarity", "response", "last"]

/** @param {HTMLElement} box @param {import("./types.js").Shown} shown */
export const fill = (box, { stage, panels, view }) => {
  const options = ["view", ...NAMES].map((key) => make("option", { value: key }))
  const which = /** @type {HTMLSelectElement} */ (make("select", { "aria-label": "What to download" }, options))
  const chosen = () => (which.value === "view" ? NAMES.map((_, i) => i) : [NAMES.indexOf(which.value)])
  const act = (/** @type {string} */ kind, /** @type {() => Blob | null | Promise<Blob | null>} */ made) => {
    const name = () => `posenc-${view().state.encoding}-${which.value}.${kind.toLowerCase()}`
    return press(stage.signal, kind, async () => download(await made(), name()))
  }
  const sheet = act("CSV", () => csv(view(), chosen()[0]))
  const picture = act("PNG", () => png(panels, chosen(), view(), stage.element))
  const drawing = act("SVG", () => svg(panels, chosen(), view(), stage.element))
  box.append(make("div", { class: "stage-bar" }, [which, picture, drawing, sheet]))
  const name = () => {
    const names = ["the whole view", ...captions(view()).map(([title]) => title.toLowerCase())]
    options.forEach((option, i) => (option.textContent = names[i]))
    sheet.toggleAttribute("disabled", which.value === "view")
  }
  which.addEventListener("change", name, { signal: stage.signal })
  stage.each(name)
  name()
}
