// What a reader can do with a figure: enlarge it, take it along, link to it, see its code, hold it still.

import { make, press } from "../kit/controls.js"

// They come when a reader asks for a picture.
const pictures = async () => ({ ...(await import("./picture.js")), ...(await import("./download.js")) })

const PLAYS = 30_000 // milliseconds after which what moves by itself stands still

/** @param {HTMLElement} figure */
const drawing = (figure) => {
  const all = /** @type {NodeListOf<SVGSVGElement>} */ (figure.querySelectorAll(".drawn-svg > svg"))
  return [...all].find((each) => each.checkVisibility()) ?? all[0]
}

/** @param {HTMLElement} figure */
const canvases = (figure) =>
  [.../** @type {NodeListOf<HTMLCanvasElement>} */ (figure.querySelectorAll(".stage canvas"))].filter(
    (canvas) => canvas.width && canvas.checkVisibility(),
  )

/** The block that drew it: in a fold below, or open above. @param {HTMLElement} figure */
const code = (figure) => {
  const below = figure.nextElementSibling
  if (below instanceof HTMLDetailsElement && below.matches(".fold")) return below
  let above = figure.previousElementSibling
  while (above && !above.matches(".highlight")) above = above.previousElementSibling
  return above
}

/** @param {HTMLElement} figure @param {HTMLElement} home has the focus again when it is closed */
const enlarge = (figure, home) => {
  const text = { type: "button", class: "figure-close", "aria-label": "Close", title: "Close", autofocus: "" }
  const close = make("button", text, ["×"])
  const back = (/** @type {Event} */ event) => {
    if (/** @type {ToggleEvent} */ (event).newState !== "closed") return
    figure.removeEventListener("toggle", back)
    figure.removeAttribute("popover")
    close.remove()
    home.focus({ preventScroll: true })
  }
  // As a popover it lies above the page without leaving it, so that a live figure goes on.
  figure.popover = "auto"
  figure.prepend(close)
  close.addEventListener("click", () => figure.hidePopover())
  figure.addEventListener("toggle", back)
  figure.showPopover()
}

/** @param {HTMLElement} figure @param {AbortSignal} signal */
const menu = (figure, signal) => {
  const address = new URL(`#${figure.id}`, location.href).href
  const credit = `${document.title}, ${address}. CC BY 4.0`
  const list = make("div", { class: "figure-list" })
  const summary = make("summary", { "aria-label": "Take this figure", title: "Take this figure" }, ["⋯"])
  const box = /** @type {HTMLDetailsElement} */ (make("details", { class: "figure-menu" }, [summary, list]))
  /** @param {string} label @param {() => unknown} act */
  const item = (label, act) => {
    const button = press(signal, label, async () => {
      await act()
      if (button.textContent === label) box.open = false
    })
    list.append(button)
    return button
  }
  item("Enlarge", () => enlarge(figure, summary)).classList.add("figure-enlarge")
  item("PNG", async () => {
    const { download, png, pngOfCanvases } = await pictures()
    const live = canvases(figure)
    download(await (live.length ? pngOfCanvases(live) : png(drawing(figure), credit)), `posenc-${figure.id}.png`)
  })
  if (drawing(figure))
    item("SVG", async () => {
      const { download, svg } = await pictures()
      download(await svg(drawing(figure), credit), `posenc-${figure.id}.svg`)
    })
  const link = item("Copy link", async () => {
    await navigator.clipboard.writeText(address)
    link.textContent = "Copied"
    setTimeout(() => (link.textContent = "Copy link"), 2000)
  })
  const block = code(figure)
  if (block)
    item("Code", () => {
      if (block instanceof HTMLDetailsElement) block.open = true
      block.scrollIntoView({ block: "start" })
    })
  const license = /** @type {HTMLAnchorElement | null} */ (document.querySelector('footer a[rel="license"]'))
  if (license) list.append(make("a", { href: license.href, rel: "license" }, ["CC BY 4.0"]))
  const close = (/** @type {Event} */ event) => {
    if (box.open && !box.contains(/** @type {Node} */ (event.target))) box.open = false
  }
  document.addEventListener("pointerdown", close, { signal })
  box.addEventListener("keydown", (event) => {
    if (event.key !== "Escape" || !box.open) return
    box.open = false
    summary.focus()
  })
  return box
}

/** A button for what moves by itself; after a while it stops alone.
 * @param {HTMLElement} figure @param {AbortSignal} signal */
const pause = (figure, signal) => {
  const films = () => drawing(figure)?.getAnimations({ subtree: true }) ?? []
  if (!films().some((film) => film.playState === "running")) return null
  let wait = 0
  const hold = () => {
    clearTimeout(wait)
    films().forEach((film) => film.pause())
    button.textContent = "Play"
  }
  const run = () => {
    films().forEach((film) => film.play())
    button.textContent = "Pause"
    wait = setTimeout(hold, PLAYS)
  }
  const button = press(signal, "Pause", () => (button.textContent === "Pause" ? hold() : run()))
  signal.addEventListener("abort", () => clearTimeout(wait), { once: true })
  // It runs already, and by its style alone: a film that a script has started no longer stops under the pointer.
  wait = setTimeout(hold, PLAYS)
  return button
}

let life = new AbortController()

export default () => {
  life.abort()
  life = new AbortController()
  const figures = /** @type {NodeListOf<HTMLElement>} */ (document.querySelectorAll("figure.drawn[id]"))
  for (const figure of figures) {
    figure.querySelector(":scope > .figure-tools")?.remove() // where the theme brings an old page back
    const film = pause(figure, life.signal)
    const whole = !figure.closest(".hero")
    const parts = [film, whole ? menu(figure, life.signal) : null].filter((part) => part !== null)
    if (parts.length) figure.append(make("div", { class: "figure-tools" }, parts))
  }
}
