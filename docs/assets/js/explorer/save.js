// Take it along: pictures as PNG and SVG, numbers as CSV.

import { make, press } from "../kit/controls.js"
import { download } from "../page/download.js"
import { sheet } from "../page/sheet.js"
import { look } from "../kit/paper.js"
import { write } from "../kit/plot.js"
import { rows } from "./numbers.js"
import { kindOf } from "./kinds.js"
import { panels, RESPONSE } from "./panels.js"
import { Vector } from "./vector.js"
import { captions } from "./captions.js"

/** @import { Look } from "../kit/plot.js" */
/** @import { View } from "./types.js" */

const [WIDTH, HEIGHT, HEAD, GAP] = [480, 380, 62, 16] // of a panel in a file, in pixels
const LINE = /.{1,84}(?:\s|$)/g // as much of a text as fits beside each other
const SHARP = 2

/** @typedef {{ panel: number, view: View, other: View | null, name: string }} Drawn */

/** What a file shows: of two views each panel twice, but for the response, which has both.
 * @type {(chosen: number[], a: View, b: View | null) => Drawn[]} */
const listed = (chosen, a, b) =>
  chosen.flatMap((panel) => {
    const first = { panel, view: a, other: panel === RESPONSE ? b : null, name: b ? "A: " : "" }
    return b && panel !== RESPONSE ? [first, { panel, view: b, other: null, name: "B: " }] : [first]
  })

/** Draw panels side by side. @param {any} ctx @param {Drawn[]} chosen @param {Look} style */
const compose = (ctx, chosen, style) => {
  const pens = panels() // not those on the page, which know where they were drawn
  chosen.forEach(({ panel, view, other, name }, place) => {
    ctx.save()
    ctx.translate(GAP + (place % 2) * (WIDTH + GAP), GAP + Math.floor(place / 2) * (HEIGHT + HEAD + GAP))
    const [title, text] = captions(view, other)[panel]
    const whose = name && !other ? `${name}${kindOf(view.state).name}. ` : ""
    write(ctx, style, whose + title, 0, 8, { weight: 700, size: 14 })
    for (const [n, words] of (text.match(LINE) ?? []).slice(0, 3).entries())
      write(ctx, style, words, 0, 25 + 13 * n, { size: 11, color: style.soft })
    ctx.translate(0, HEAD)
    ctx.fillStyle = ctx.strokeStyle = style.ink
    ctx.lineCap = "round"
    pens[panel].draw(ctx, WIDTH, HEIGHT, style, view, other)
    ctx.restore()
  })
}

/** @param {number} count @returns {[number, number]} */
const sized = (count) => [GAP + Math.min(count, 2) * (WIDTH + GAP), GAP + Math.ceil(count / 2) * (HEIGHT + HEAD + GAP)]

/** @param {Drawn[]} chosen @param {Element} element */
const svg = (chosen, element) => {
  const pen = new Vector()
  const style = look(element)
  compose(pen, chosen, style)
  return new Blob([pen.file(...sized(chosen.length), style.paper)], { type: "image/svg+xml" })
}

/** @param {Drawn[]} chosen @param {Element} element @returns {Promise<Blob | null>} */
const png = (chosen, element) => {
  const style = look(element)
  const [width, height] = sized(chosen.length)
  const { ctx, blob } = sheet(width * SHARP, height * SHARP)
  ctx.scale(SHARP, SHARP)
  compose(ctx, chosen, style)
  return blob()
}

/** @param {string | number} cell */
const cell = (cell) => (/[",]/.test(String(cell)) ? `"${String(cell).replaceAll('"', '""')}"` : String(cell))

/** Of two views one after the other, with an empty line between.
 * @type {(a: View, b: View | null, panel: number) => Blob} */
const csv = (a, b, panel) => {
  const lines = (/** @type {View} */ view) => rows(view, panel).map((row) => `${row.map(cell).join()}\n`)
  return new Blob([...lines(a), ...(b ? ["\n", ...lines(b)] : [])], { type: "text/csv" })
}

const NAMES = ["pattern", "similarity", "response", "last"]

/** @param {HTMLElement} box @param {import("./types.js").Shown} shown */
export const fill = (box, { stage, view, other }) => {
  const options = ["view", ...NAMES].map((key) => make("option", { value: key }))
  const which = /** @type {HTMLSelectElement} */ (make("select", { "aria-label": "What to download" }, options))
  const chosen = () => (which.value === "view" ? NAMES.map((_, i) => i) : [NAMES.indexOf(which.value)])
  const drawn = () => listed(chosen(), view(), other())
  const act = (/** @type {string} */ kind, /** @type {() => Blob | null | Promise<Blob | null>} */ content) => {
    const whose = () => [view(), other()].flatMap((side) => (side ? [side.state.encoding] : [])).join("-")
    const name = () => `posenc-${whose()}-${which.value}.${kind.toLowerCase()}`
    return press(stage.signal, kind, async () => download(await content(), name()))
  }
  const sheet = act("CSV", () => csv(view(), other(), chosen()[0]))
  const picture = act("PNG", () => png(drawn(), stage.element))
  const drawing = act("SVG", () => svg(drawn(), stage.element))
  const bar = make("div", { class: "stage-bar" }, [which, picture, drawing, sheet])
  const license = /** @type {HTMLAnchorElement | null} */ (document.querySelector('footer a[rel="license"]'))
  if (license) bar.append(make("a", { href: license.href, rel: "license" }, ["CC BY 4.0"]))
  box.append(bar)
  const name = () => {
    const names = ["the whole view", ...captions(view(), other()).map(([title]) => title.toLowerCase())]
    options.forEach((option, i) => (option.textContent = names[i]))
    sheet.toggleAttribute("disabled", which.value === "view")
  }
  which.addEventListener("change", name, { signal: stage.signal })
  stage.each(name)
  name()
}
