// The explorer: controls on one side, four linked panels on the other, and what can be taken along below.

import { handle, make } from "../kit/controls.js"
import { addActions } from "./actions.js"
import { createApp } from "./state.js"
import { KINDS } from "./kinds.js"
import { knobs } from "./controls.js"
import { panels, RESPONSE } from "./panels.js"
import { stepped } from "./panels/steps.js"
import { createLayout, sheet } from "./layout.js"
import { captions, label, reading, readings } from "./captions.js"

/** @import { Stage } from "../kit/stage.js" */
/** @import { App } from "./state.js" */
/** @import { Focus, PageData, Panel } from "./types.js" */

// knobs that choose what is read, not what is computed
const PLACE = ["query", "key", "channel", "causal", "softmax", "far"]
const FEW = ["encoding", "length", "base", "query", "key"] // of a chapter's view that names none
const ABOVE = ["encoding", "words"]

/** @param {Stage} stage @param {PageData} data */
export const build = (stage, data) => {
  stage.element.classList.add("explorer")
  stage.element.toggleAttribute("data-embedded", Boolean(data.embedded))
  const app = createApp(stage, data)
  const layout = createLayout(stage)
  const grid = make("div", { class: "explorer-panels" })
  let use = (/** @type {string} */ _name) => {}
  const few = data.embedded && (data.controls ?? FEW)
  const board = knobs(stage, data, {
    now: app.set,
    set: (name, value, moves) => app.change({ [name]: value }, name, moves),
    offers: (name) => !few || few.includes(name),
    home: (name) => (ABOVE.includes(name) ? layout.kinds : PLACE.includes(name) ? layout.place : layout.settings),
    uses: (name) => use(name),
  })
  stage.each(() => {
    if (stage.host.dataset.measure !== undefined) performance.mark("explorer starts")
    app.see()
    board.sync(app.set())
    stage.element.toggleAttribute("data-two", Boolean(app.other))
  })
  const under = sheet(stage, layout, grid, board.shows)
  use = under.use
  const line = stage.say(() => reading(app.view))
  line.classList.add("explorer-reading")
  layout.main.append(line, grid)
  const papers = [panels(), panels()].flatMap((all, side) =>
    all.flatMap((panel, i) =>
      side && (i === RESPONSE || data.embedded) ? [] : [addPanel(stage, app, panel, i, side, grid)],
    ),
  )
  if (data.embedded) return linkToAll(stage, data, app)
  addActions(stage, data, app, layout, { shows: board.shows, current: under.current })
  stage.each(() => {
    if (layout.notice.textContent !== app.notice) layout.notice.textContent = app.notice
    under.names(captions(app.view)[3][0].split(" ")[0])
  })
  drawers(stage, { stage, data, view: () => app.view, other: () => app.beside })
  checkSelf(stage, data)
  stage.each(() => {
    if (stage.host.dataset.measure === undefined) return
    // so that it is drawn by now
    for (const paper of papers) if (paper.element.clientWidth) paper.ctx.getImageData(0, 0, 1, 1)
    performance.measure("explorer redraw", "explorer starts")
  })
}

/** One panel of one side, with its name, its words and its value.
 * @param {Stage} stage @param {App} app @param {Panel} panel @param {number} i @param {number} side
 * @param {HTMLElement} grid */
const addPanel = (stage, app, panel, i, side, grid) => {
  const title = make("strong")
  const text = make("p")
  const value = make("span", { class: "explorer-value", "aria-hidden": "true" })
  const view = () => (side && app.beside) || app.view
  const other = () => (i === RESPONSE ? app.beside : null)
  const pin = (/** @type {Focus} */ focus) => Object.keys(focus).length && app.change(focus, "place", true)
  const arrow = (/** @type {"x" | "y"} */ way) =>
    handle(
      () => 0,
      (step) => pin(stepped(view(), i, way, step)),
    )
  const paper = stage.canvas({
    label: () => label(view(), i, other()),
    ratio: (width) => high(width, i, Boolean(app.beside)),
    draw: (ctx, width, height, look) => panel.draw(ctx, width, height, look, view(), other()),
    point: ({ x, y, down }) => {
      const focus = panel.pick(x, y, view())
      if (down) pin(focus)
      else app.hover = focus
    },
    leave: () => (app.hover = {}),
    arrows: { x: arrow("x"), y: arrow("y") },
  })
  const place = { "data-i": String(i), "data-side": "AB"[side] }
  const head = make("div", {}, [title, value])
  const element = make("div", { class: "explorer-panel", ...place }, [head, text, paper.element])
  grid.append(element)
  stage.each(() => {
    element.hidden = Boolean(side) && !app.beside
    if (element.hidden) return
    const [name, words] = captions(view(), other())[i]
    const whose = app.beside && i !== RESPONSE ? `${"AB"[side]} ${KINDS[view().state.encoding].name}. ` : ""
    if (title.textContent !== whose + name) title.textContent = whose + name
    if (text.textContent !== words) text.textContent = words
    value.textContent = readings(view())[i]
  })
  return paper
}

/** The height of a panel: two of them fit above each other on a narrow screen.
 * @type {(width: number, i: number, two: boolean) => number} */
const high = (width, i, two) => {
  if (width < 400 && two) return Math.round(width * (i === RESPONSE ? 0.7 : 0.56))
  return Math.round(width < 400 && i < 2 ? width * 0.86 : Math.min(Math.max(width * 0.7, 240), 345))
}

/** From a chapter to the same view with every knob. @param {Stage} stage @param {PageData} data @param {App} app */
const linkToAll = (stage, data, app) => {
  const link = /** @type {HTMLAnchorElement} */ (make("a", {}, ["Open in the explorer"]))
  stage.add(make("p", {}, [link]))
  stage.each(() => void (link.href = data.embedded + app.query()))
}

/** What is fetched when it is opened. @param {Stage} stage @param {import("./types.js").Shown} all */
const drawers = (stage, all) => {
  /** @param {string} title @param {(box: HTMLElement) => void} fill */
  const drawer = (title, fill) => {
    const box = make("div")
    const details = stage.add(make("details", {}, [make("summary", {}, [title]), box]))
    details.addEventListener("toggle", () => fill(box), { once: true, signal: stage.signal })
  }
  drawer("The Python that makes this", async (box) => (await import("./code.js")).fill(box, all))
  drawer("Numbers as a table", async (box) => (await import("./numbers.js")).fill(box, all))
  drawer("Pictures and numbers to take along", async (box) => (await import("./save.js")).fill(box, all))
}

/** @param {Stage} stage @param {PageData} data */
const checkSelf = async (stage, data) => (await import("./self-check.js")).judge(stage, data)
