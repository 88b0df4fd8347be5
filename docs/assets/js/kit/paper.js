// A canvas that is sharp on every screen, in the page's colors and letters, and knows where the pointer is.

/** @import { Stage } from "./stage.js" */
/** @typedef {{ ink: string, soft: string, rule: string, ground: string, paper: string, spark: string, blue: string,
 *   series: string[], letters: string[], font: (size?: number, weight?: number) => string }} Look */
/** Where, of a picture how wide.
 * @typedef {{ x: number, y: number, width: number, down: boolean, start: boolean }} Touch */
/**
 * @typedef {object} PaperOptions
 * @property {() => string} label what those hear who cannot see it
 * @property {number | ((width: number) => number)} ratio height over width, or the height for a width in pixels
 * @property {(ctx: CanvasRenderingContext2D, width: number, height: number, look: Look) => void} draw
 * @property {(touch: Touch) => void} [point] the pointer moves over the picture, or drags (`down`)
 * @property {() => void} [leave] the pointer leaves it
 * @property {{ x?: { value: number }, y?: { value: number } }} [arrows] controls that the arrow keys move
 */

const SERIES = 6

/** @param {Element} element @returns {Look} */
export const look = (element) => {
  const style = getComputedStyle(element)
  const token = (/** @type {string} */ name) => style.getPropertyValue(name).trim()
  const numbered = (/** @type {string} */ name) => Array.from({ length: SERIES }, (_, i) => token(`--${name}-${i}`))
  return {
    ink: token("--ink"),
    soft: token("--ink-soft"),
    rule: token("--rule"),
    ground: token("--ground"),
    paper: token("--paper"),
    spark: token("--spark"),
    blue: token("--blue"),
    series: numbered("line"),
    letters: numbered("letters"), // the same colors, dark enough for text
    font: (size = 12, weight = 400) => `${weight} ${size}px "Source Sans 3", sans-serif`,
  }
}

export class Paper {
  /** @param {Stage} stage @param {PaperOptions} options */
  constructor(stage, options) {
    this.options = options
    this.stage = stage
    this.element = document.createElement("canvas")
    this.element.setAttribute("role", "img")
    this.ctx = /** @type {CanvasRenderingContext2D} */ (this.element.getContext("2d"))
    const sized = new ResizeObserver(() => stage.changed())
    sized.observe(this.element)
    stage.signal.addEventListener("abort", () => sized.disconnect(), { once: true })
    if (options.point) this.listen(options.point)
    if (options.arrows) this.steer(options.arrows)
  }

  draw() {
    const { options, ctx, element } = this
    const width = element.clientWidth
    if (!width) return
    const height = Math.round(typeof options.ratio === "number" ? width * options.ratio : options.ratio(width))
    const scale = window.devicePixelRatio || 1
    const size = [Math.round(width * scale), Math.round(height * scale)]
    if (element.width !== size[0] || element.height !== size[1]) {
      ;[element.width, element.height] = size
      element.style.height = `${height}px`
    }
    ctx.setTransform(scale, 0, 0, scale, 0, 0)
    ctx.clearRect(0, 0, width, height)
    const style = look(element)
    ctx.font = style.font()
    ctx.fillStyle = ctx.strokeStyle = style.ink
    ctx.lineJoin = ctx.lineCap = "round"
    options.draw(ctx, width, height, style)
    element.setAttribute("aria-label", options.label())
  }

  /** @param {(touch: Touch) => void} point */
  listen(point) {
    const { element, stage } = this
    const { signal } = stage
    element.style.touchAction = "pan-y" // a finger that drags sideways holds the picture, one that goes down scrolls
    let down = false
    const at = (/** @type {PointerEvent} */ event, start = false) => {
      const box = element.getBoundingClientRect()
      point({ x: event.clientX - box.left, y: event.clientY - box.top, width: box.width, down, start })
      stage.changed()
    }
    const press = (/** @type {PointerEvent} */ event) => {
      down = true
      element.setPointerCapture(event.pointerId)
      at(event, true)
    }
    element.addEventListener("pointerdown", press, { signal })
    element.addEventListener("pointermove", (event) => at(event), { signal })
    for (const kind of ["pointerup", "pointercancel"]) element.addEventListener(kind, () => (down = false), { signal })
    element.addEventListener("pointerleave", () => (this.options.leave?.(), stage.changed()), { signal })
  }

  /** @param {NonNullable<PaperOptions["arrows"]>} arrows */
  steer({ x, y }) {
    this.element.tabIndex = 0
    /** @type {Record<string, [{ value: number } | undefined, number]>} */
    const keys = { ArrowLeft: [x, -1], ArrowRight: [x, 1], ArrowUp: [y, -1], ArrowDown: [y, 1] }
    const move = (/** @type {KeyboardEvent} */ event) => {
      const [control, step] = keys[event.key] ?? []
      if (!control || !step) return
      event.preventDefault()
      control.value += step * (event.shiftKey ? 10 : 1)
    }
    this.element.addEventListener("keydown", move, { signal: this.stage.signal })
  }
}
