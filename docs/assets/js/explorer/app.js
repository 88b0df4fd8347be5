// The explorer: controls on one side, four linked panels on the other, and what can be taken along below.

import { make, press } from "../kit/controls.js"
import { address } from "./address.js"
import { knobs } from "./knobs.js"
import { explorer } from "./model.js"
import { panels, stepped } from "./panels.js"
import { defaults, fromQuery, settle, toQuery } from "./spec.js"
import { captions, label, reading, readings } from "./words.js"

/** @import { Stage } from "../kit/stage.js" */
/** @import { State, Given, Focus, Panel } from "./types.js" */
/** @typedef {ReturnType<typeof held>} Held */

const PLACE = ["query", "key", "channel", "causal"] // knobs that choose what is read, not what is computed
const FEW = ["encoding", "length", "base", "query", "key"] // of a chapter's view that names none

/** @param {Stage} stage @param {Given} given */
export const build = (stage, given) => {
  stage.element.classList.add("explorer")
  const app = held(stage, given)
  const home = rooms(stage)
  const sync = controls(stage, given, app, home)
  stage.each(() => {
    if (stage.host.dataset.measure !== undefined) performance.mark("explorer starts")
    app.see()
    sync(app.state)
  })
  const said = stage.say(() => reading(app.view))
  said.classList.add("explorer-reading")
  const grid = make("div", { class: "explorer-panels" })
  home.main.append(said, grid)
  const all = panels()
  const papers = all.map((panel, i) => shown(stage, app, panel, i, grid))
  if (given.embedded) return leads(stage, given, app)
  acts(stage, given, app, home)
  drawers(stage, { stage, given, panels: all, view: () => app.view })
  judged(stage, given)
  stage.each(() => {
    if (stage.host.dataset.measure === undefined) return
    for (const paper of papers) paper.ctx.getImageData(0, 0, 1, 1) // so that it is drawn by now
    performance.measure("explorer redraw", "explorer starts")
  })
}

/** What is set, pointed at and seen, and its address. @param {Stage} stage @param {Given} given */
const held = (stage, given) => {
  const compute = explorer(given)
  /** @type {State} what the reader has set, though other knobs may forbid it for now */
  let wish = given.embedded ? { ...defaults(given), ...given.state } : fromQuery(location.search, given)
  const first = settle(wish, given)
  const app = {
    state: first,
    hover: /** @type {Focus} */ ({}),
    view: compute(first),
    see: () => void (app.view = compute({ ...app.state, ...app.hover })),
    /** @param {State} change @param {string} knob @param {boolean} moves */
    change: (change, knob, moves) => {
      wish = { ...wish, ...change }
      show(settle(wish, given))
      bar?.write(toQuery(app.state, given), knob, moves)
    },
  }
  const show = (/** @type {State} */ state) => {
    app.state = state
    app.hover = {}
    stage.changed()
  }
  const read = (/** @type {string} */ query) => show((wish = fromQuery(query, given)))
  const top = () => stage.element.scrollIntoView({ block: "start" })
  const bar = given.embedded ? null : address(stage.signal, { read, show: top })
  return app
}

/** @param {Stage} stage */
const rooms = (stage) => {
  const kinds = stage.add(make("div", { class: "stage-bar explorer-kinds" }))
  const guided = stage.add(make("div"))
  const settings = make("div", { class: "explorer-settings" })
  const place = make("div", { class: "explorer-settings explorer-place" })
  const main = make("div", { class: "explorer-main" })
  const head = make("summary", {}, ["Settings"])
  const side = make("details", { class: "explorer-side" }, [head, settings, place])
  side.toggleAttribute("open", matchMedia("(min-width: 48em)").matches)
  stage.add(make("div", { class: "explorer-body" }, [side, main]))
  return { kinds, guided, settings, place, main }
}

/** @param {Stage} stage @param {Given} given @param {Held} app @param {ReturnType<typeof rooms>} home */
const controls = (stage, given, app, { kinds, place, settings }) => {
  const few = given.embedded && (given.controls ?? FEW)
  return knobs(stage, given, {
    now: () => app.state,
    set: (name, value, moves) => app.change({ [name]: value }, name, moves),
    offers: (name) => !few || few.includes(name),
    home: (name) => (name === "encoding" ? kinds : PLACE.includes(name) ? place : settings),
  })
}

/** One panel with its name, its words and its value. @param {Stage} stage @param {Held} app @param {Panel} panel @param {number} i @param {HTMLElement} grid */
const shown = (stage, app, panel, i, grid) => {
  const title = make("strong")
  const text = make("p")
  const value = make("span", { class: "explorer-value", "aria-hidden": "true" })
  const pin = (/** @type {Focus} */ focus) => Object.keys(focus).length && app.change(focus, "place", true)
  const arrow = (/** @type {"x" | "y"} */ way) => ({
    get value() {
      return 0
    },
    set value(step) {
      pin(stepped(app.view, i, way, step))
    },
  })
  const paper = stage.canvas({
    label: () => label(app.view, i),
    ratio: (width) => Math.round(width < 400 && i < 2 ? width * 0.86 : Math.min(Math.max(width * 0.7, 240), 345)),
    draw: (ctx, width, height, look) => panel.draw(ctx, width, height, look, app.view),
    point: ({ x, y, down }) => {
      const focus = panel.pick(x, y, app.view)
      if (down) pin(focus)
      else app.hover = focus
    },
    leave: () => (app.hover = {}),
    arrows: { x: arrow("x"), y: arrow("y") },
  })
  const head = make("div", {}, [title, value])
  grid.append(make("div", { class: "explorer-panel" }, [head, text, paper.element]))
  stage.each(() => {
    const [name, words] = captions(app.view)[i]
    if (title.textContent !== name) title.textContent = name
    if (text.textContent !== words) text.textContent = words
    value.textContent = readings(app.view)[i]
  })
  return paper
}

/** From a chapter to the same view with every knob. @param {Stage} stage @param {Given} given @param {Held} app */
const leads = (stage, given, app) => {
  const link = /** @type {HTMLAnchorElement} */ (make("a", {}, ["Open in the explorer"]))
  stage.add(make("p", {}, [link]))
  stage.each(() => void (link.href = given.embedded + toQuery(app.state, given)))
}

/** The tour and the way back. @param {Stage} stage @param {Given} given @param {Held} app @param {ReturnType<typeof rooms>} home */
const acts = ({ signal }, given, app, { kinds, guided }) => {
  const go = (/** @type {State} */ step) => app.change({ ...defaults(given), ...step }, "tour", false)
  const walk = async () => {
    const { tour } = await import("./tour.js")
    tour(signal, guided, given.tour, { go, done: () => start.focus() })
  }
  const start = press(signal, "Take the tour", walk)
  const reset = () => app.change({ ...defaults(given), encoding: app.state.encoding }, "reset", false)
  kinds.append(make("div", { class: "explorer-acts" }, [start, press(signal, "Reset", reset)]))
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

/** @param {Stage} stage @param {Given} given */
const judged = async (stage, given) => (await import("./judge.js")).judge(stage, given)
