// A pen that writes SVG: as much of a canvas's context as the panels use. Lines and letters stay vectors.

const TURN = 2 * Math.PI
/** @param {number} value */
const n = (value) => String(Math.round(value * 100) / 100)
/** @param {string} text */
const safe = (text) => text.replace(/[&<>"]/g, (letter) => `&#${letter.charCodeAt(0)};`)

const measure = document.createElement("canvas").getContext("2d")

export class Vector {
  constructor() {
    /** @type {string[]} */
    this.parts = []
    this.state = {
      ...{ fillStyle: "#000", strokeStyle: "#000", lineWidth: 1, lineCap: "round", dash: "", globalAlpha: 1 },
      ...{ font: "12px sans-serif", textAlign: "left", textBaseline: "alphabetic" },
      ...{ imageSmoothingEnabled: true, place: "", within: "" },
    }
    /** @type {Array<typeof this.state>} */
    this.stack = []
    this.path = ""
    this.clips = 0
    for (const name of Object.keys(this.state)) {
      const get = () => Object(this.state)[name]
      const set = (/** @type {unknown} */ value) => void (Object(this.state)[name] = value)
      Object.defineProperty(this, name, { get, set })
    }
  }

  save() {
    this.stack.push({ ...this.state })
  }

  restore() {
    this.state = this.stack.pop() ?? this.state
  }

  /** @param {number} x @param {number} y */
  translate(x, y) {
    this.state.place += ` translate(${n(x)} ${n(y)})`
  }

  /** @param {number} angle */
  rotate(angle) {
    this.state.place += ` rotate(${n((angle * 360) / TURN)})`
  }

  /** @param {number[]} dash */
  setLineDash(dash) {
    this.state.dash = dash.map(n).join(" ")
  }

  beginPath() {
    this.path = ""
  }

  /** @param {number} x @param {number} y */
  moveTo(x, y) {
    this.path += `M${n(x)} ${n(y)}`
  }

  /** @param {number} x @param {number} y */
  lineTo(x, y) {
    this.path += `L${n(x)} ${n(y)}`
  }

  /** @param {number} x @param {number} y @param {number} width @param {number} height */
  rect(x, y, width, height) {
    this.path += `M${n(x)} ${n(y)}h${n(width)}v${n(height)}h${n(-width)}z`
  }

  /** Whole circles only. @param {number} x @param {number} y @param {number} r */
  arc(x, y, r) {
    this.path += `M${n(x - r)} ${n(y)}a${n(r)} ${n(r)} 0 1 0 ${n(2 * r)} 0a${n(r)} ${n(r)} 0 1 0 ${n(-2 * r)} 0z`
  }

  /** @param {string} shape */
  put(shape) {
    const { place, within, globalAlpha } = this.state
    const with_ = `${place && ` transform="${place.trim()}"`}${globalAlpha < 1 ? ` opacity="${globalAlpha}"` : ""}`
    const drawn = shape.replace(/^<\w+/, (start) => start + with_)
    this.parts.push(within ? `<g clip-path="url(#${within})">${drawn}</g>` : drawn)
  }

  get pen() {
    const { strokeStyle, lineWidth, lineCap, dash } = this.state
    return `stroke="${strokeStyle}" stroke-width="${n(lineWidth)}" stroke-linecap="${lineCap}" stroke-linejoin="round"${dash && ` stroke-dasharray="${dash}"`}`
  }

  stroke() {
    this.put(`<path d="${this.path}" fill="none" ${this.pen}/>`)
  }

  fill() {
    this.put(`<path d="${this.path}" fill="${this.state.fillStyle}"/>`)
  }

  clip() {
    const name = `clip${(this.clips += 1)}`
    this.parts.push(`<clipPath id="${name}"><path transform="${this.state.place.trim()}" d="${this.path}"/></clipPath>`)
    this.state.within = name
  }

  /** @param {number} x @param {number} y @param {number} width @param {number} height */
  fillRect(x, y, width, height) {
    this.put(`<rect x="${n(x)}" y="${n(y)}" width="${n(width)}" height="${n(height)}" fill="${this.state.fillStyle}"/>`)
  }

  /** @param {number} x @param {number} y @param {number} width @param {number} height */
  strokeRect(x, y, width, height) {
    this.beginPath()
    this.rect(x, y, width, height)
    this.stroke()
  }

  /** @param {string} text */
  measureText(text) {
    if (measure) measure.font = this.state.font
    return { width: measure?.measureText(text).width ?? 0 }
  }

  /** @param {string} text @param {number} x @param {number} y @param {string} paint */
  letters(text, x, y, paint) {
    const { font, textAlign, textBaseline } = this.state
    const anchor = { center: "middle", right: "end" }[textAlign] ?? "start"
    const base = { middle: "central", top: "text-before-edge", bottom: "text-after-edge" }[textBaseline] ?? "auto"
    this.put(
      `<text x="${n(x)}" y="${n(y)}" style="font:${safe(font)}" text-anchor="${anchor}" dominant-baseline="${base}" ${paint}>${safe(text)}</text>`,
    )
  }

  /** @param {string} text @param {number} x @param {number} y */
  fillText(text, x, y) {
    this.letters(text, x, y, `fill="${this.state.fillStyle}"`)
  }

  /** @param {string} text @param {number} x @param {number} y */
  strokeText(text, x, y) {
    this.letters(text, x, y, `fill="none" ${this.pen}`)
  }

  /** @param {HTMLCanvasElement} image @param {number} x @param {number} y @param {number} width @param {number} height
   */
  drawImage(image, x, y, width, height) {
    const sharp = this.state.imageSmoothingEnabled ? "" : ` style="image-rendering:pixelated"`
    this.put(
      `<image x="${n(x)}" y="${n(y)}" width="${n(width)}" height="${n(height)}" preserveAspectRatio="none"${sharp} href="${image.toDataURL()}"/>`,
    )
  }

  /** @param {number} width @param {number} height @param {string} ground */
  file(width, height, ground) {
    return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${n(width)} ${n(height)}" width="${n(width)}" height="${n(height)}"><rect width="100%" height="100%" fill="${ground}"/>${this.parts.join("\n")}</svg>\n`
  }
}
