// A figure as a file of its own: SVG in the colors of the page, PNG at twice its size.

import { sheet } from "./sheet.js"

const SHARP = 2
const INK = /var\((--[\w-]+),\s*(#[0-9a-f]{6})\)/gi // as the engine writes it: a theme may change a letter's shade
const FONT = "Source Sans 3"

/** @param {string} address @returns {Promise<string>} */
const asData = async (address) => {
  const blob = await (await fetch(address)).blob()
  return new Promise((done, failed) => {
    const reader = new FileReader()
    reader.onload = () => done(String(reader.result))
    reader.onerror = () => failed(reader.error)
    reader.readAsDataURL(blob)
  })
}

/** Within a picture the browser loads nothing: the page's letters come along. */
const font = async () => {
  const file = document.querySelector('link[rel="preload"][href*="source-sans"]')?.getAttribute("href")
  if (!file) return ""
  return `@font-face{font-family:"${FONT}";src:url(${await asData(new URL(file, document.baseURI).href)})}`
}

/** The drawing with all that it takes from its page.
 * @param {SVGSVGElement} drawn @param {{ credit: string, letters?: string }} options */
const file = async (drawn, { credit, letters = "" }) => {
  const style = getComputedStyle(drawn)
  const copy = /** @type {SVGSVGElement} */ (drawn.cloneNode(true))
  const { x, y, width, height } = drawn.viewBox.baseVal
  const attributes = { xmlns: "http://www.w3.org/2000/svg", width: String(width), height: String(height) }
  for (const [name, value] of Object.entries(attributes)) copy.setAttribute(name, value)
  copy.setAttribute("style", `color:${style.color};font-family:"${FONT}",sans-serif`)
  copy.removeAttribute("class")
  const paper = getComputedStyle(document.body).getPropertyValue("--paper").trim() || "white"
  const ground = `<rect x="${x}" y="${y}" width="${width}" height="${height}" fill="${paper}"/>`
  const rules = `<style>${letters}text{fill:currentColor;stroke:none}image{image-rendering:pixelated}</style>`
  copy.insertAdjacentHTML("afterbegin", rules + ground)
  copy.insertAdjacentHTML("afterbegin", "<desc></desc>")
  if (copy.firstElementChild) copy.firstElementChild.textContent = credit
  for (const image of copy.querySelectorAll("image")) {
    const name = image.hasAttribute("href") ? "href" : "xlink:href"
    const address = image.getAttribute(name) ?? ""
    if (!address.startsWith("data:")) image.setAttribute(name, await asData(new URL(address, location.href).href))
  }
  const text = new XMLSerializer().serializeToString(copy)
  return text.replace(INK, (_, name, color) => style.getPropertyValue(name).trim() || color)
}

/** @param {SVGSVGElement} drawn @param {string} credit */
export const svg = async (drawn, credit) => new Blob([await file(drawn, { credit })], { type: "image/svg+xml" })

/** @param {SVGSVGElement} drawn @param {string} credit @returns {Promise<Blob | null>} */
export const png = async (drawn, credit) => {
  const text = await file(drawn, { credit, letters: await font() })
  const image = new Image()
  image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(text)}`
  await image.decode()
  const { width, height } = drawn.viewBox.baseVal
  const wide = Math.max(1, 1000 / width) * SHARP
  const { ctx, blob } = sheet(Math.round(width * wide), Math.round(height * wide))
  ctx.drawImage(image, 0, 0, ctx.canvas.width, ctx.canvas.height)
  return blob()
}

/** A live figure as it stands: its canvases below each other. @param {HTMLCanvasElement[]} canvases */
export const pngOfCanvases = (canvases) => {
  const { ctx, blob } = sheet(
    Math.max(...canvases.map((c) => c.width)),
    canvases.reduce((sum, c) => sum + c.height, 0),
  )
  let y = 0
  for (const canvas of canvases) {
    ctx.drawImage(canvas, 0, y)
    y += canvas.height
  }
  return blob()
}
