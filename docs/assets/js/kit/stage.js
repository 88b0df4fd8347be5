// What a live figure is built on: controls, canvases, a line that says what is seen, and one redraw per frame.
//
//   export default function clockFilm(stage) {
//     const p = stage.slider("position", { min: 0, max: 63, value: 21 })
//     stage.canvas({ label: () => `…`, ratio: 0.4, draw: (ctx, width, height, look) => { … } })
//     stage.say(() => `At ${p.value} …`)
//   }
//
// What a pointer can do on a canvas, a control must do too: then keyboards and screen readers need nothing else.

import { button, choice, film, make, predict, select, slider, toggle } from "./controls.js"
import { Paper } from "./paper.js"

/** @import { PaperOptions } from "./paper.js" */

const SPEAK = 400 // milliseconds of rest before a screen reader hears the line

export class Stage {
  slider = slider.bind(null, this)
  choice = choice.bind(null, this)
  select = select.bind(null, this)
  toggle = toggle.bind(null, this)
  button = button.bind(null, this)
  film = film.bind(null, this)
  predict = predict.bind(null, this)

  /** @param {HTMLElement} host @param {any} data what the page has computed @param {AbortSignal} signal */
  constructor(host, data, signal) {
    this.host = host
    this.data = data
    this.signal = signal // aborted when the figure leaves the page: pass it to every listener
    this.element = make("div", { class: "stage" })
    /** @type {HTMLElement | null} */
    this.bar = null
    /** @type {Array<() => void>} */
    this.parts = []
    this.frame = 0
    this.drawn = 0
    signal.addEventListener("abort", () => cancelAnimationFrame(this.frame), { once: true })
  }

  /** Draw now, and again when the page changes its colors. */
  begin() {
    const repaint = new MutationObserver(() => this.changed())
    repaint.observe(document.body, { attributes: true, attributeFilter: ["data-md-color-scheme"] })
    this.signal.addEventListener("abort", () => repaint.disconnect(), { once: true })
    document.fonts.ready.then(() => this.changed())
    this.draw()
  }

  /** Ask for a redraw in the next frame. */
  changed() {
    if (this.frame || this.signal.aborted) return
    this.frame = requestAnimationFrame(() => this.draw())
  }

  draw() {
    cancelAnimationFrame(this.frame)
    this.frame = 0
    for (const part of this.parts) part()
    this.drawn += 1
  }

  /** Run `part` at every redraw, in the order in which parts were added. @param {() => void} part */
  each(part) {
    this.parts.push(part)
  }

  /** @template {HTMLElement} T @param {T} element @returns {T} */
  add(element) {
    this.bar = null
    this.element.append(element)
    return element
  }

  /** Put a control into the bar, beside the controls before it. @param {HTMLElement} element */
  control(element) {
    this.bar ??= this.element.appendChild(make("div", { class: "stage-bar" }))
    this.bar.append(element)
  }

  /** @param {PaperOptions} options */
  canvas(options) {
    const paper = new Paper(this, options)
    this.add(paper.element)
    this.each(() => paper.draw())
    return paper
  }

  /** Say under the figure, and to screen readers, what is seen now. @param {() => string} text */
  say(text) {
    const line = this.add(make("p", { class: "stage-say" }))
    const spoken = this.element.appendChild(make("p", { class: "stage-spoken", role: "status" }))
    let [wait, wide, high] = [0, 0, 0]
    const observer = new ResizeObserver(([{ contentRect: box }]) => {
      high = wide && wide !== box.width ? 0 : Math.max(high, box.height) // what is below moves once
      wide = box.width
      line.style.minHeight = high ? `${high}px` : ""
    })
    observer.observe(line)
    this.each(() => {
      const now = text()
      if (line.textContent === now) return
      line.textContent = now
      clearTimeout(wait)
      if (this.drawn) wait = setTimeout(() => (spoken.textContent = now), SPEAK)
    })
    this.signal.addEventListener("abort", () => (clearTimeout(wait), observer.disconnect()), { once: true })
    return line
  }
}
