// The explorer: controls on one side, four linked panels on the other, and what can be taken along below.

import { make } from "../kit/controls.js"
import { address } from "./address.js"
import { knobs } from "./knobs.js"
import { agreement, explorer } from "./model.js"
import { panels, stepped } from "./panels.js"
import { defaults, fromQuery, settle, toQuery } from "./spec.js"
import { captions, label, reading, readings } from "./words.js"

/** @import { Stage } from "../kit/stage.js" */
/** @import { State, Given, Focus } from "./types.js" */

const REST = 300 // milliseconds after which the numbers are judged
const PLACE = ["query", "key", "channel", "causal"] // knobs that choose what is read, not what is computed

/** @param {Stage} stage @param {Given} given */
export const build = (stage, given) => {
  const { signal } = stage
  const embedded = given.embedded
  const see = explorer(given)
  /** @type {State} what the reader has set, though other knobs may forbid it for now */
  let wish = embedded ? { ...defaults(given), ...given.state } : fromQuery(location.search, given)
  let state = settle(wish, given)
  /** @type {Focus} */
  let hover = {}
  let view = see(state)
  stage.element.classList.add("explorer")

  const read = (/** @type {string} */ query) => load(fromQuery(query, given))
  const show = () => stage.element.scrollIntoView({ block: "start" })
  const bar = embedded ? null : address(signal, { read, show })
  /** @param {State} next */
  const load = (next) => {
    state = wish = next
    hover = {}
    stage.changed()
  }
  /** @param {State} change @param {string} knob @param {boolean} moves */
  const change = (change, knob, moves) => {
    hover = {}
    wish = { ...wish, ...change }
    state = settle(wish, given)
    bar?.write(toQuery(state, given), knob, moves)
    stage.changed()
  }

  // Controls
  const kinds = stage.add(make("div", { class: "stage-bar explorer-kinds" }))
  const guided = stage.add(make("div"))
  const body = stage.add(make("div", { class: "explorer-body" }))
  const side = /** @type {HTMLDetailsElement} */ (
    make("details", { class: "explorer-side" }, [make("summary", {}, ["Settings"])])
  )
  side.open = matchMedia("(min-width: 48em)").matches
  const settings = make("div", { class: "explorer-settings" })
  const place = make("div", { class: "explorer-settings explorer-place" })
  side.append(settings, place)
  const main = make("div", { class: "explorer-main" })
  body.append(side, main)
  const fewer = embedded && (given.controls ?? ["encoding", "length", "base", "query", "key"])
  const sync = knobs(stage, given, {
    now: () => state,
    set: (name, value, moves) => change({ [name]: value }, name, moves),
    offers: (name) => !fewer || fewer.includes(name),
    home: (name) => (name === "encoding" ? kinds : PLACE.includes(name) ? place : settings),
  })

  // What is seen
  stage.each(() => {
    if (stage.host.dataset.measure !== undefined) performance.mark("explorer starts")
    view = see({ ...state, ...hover })
    sync(state)
  })
  const said = stage.say(() => reading(view))
  said.classList.add("explorer-reading")
  const grid = make("div", { class: "explorer-panels" })
  main.append(said, grid)
  const all = panels()
  const papers = all.map((panel, i) => {
    const title = make("strong")
    const text = make("p")
    const value = make("span", { class: "explorer-value", "aria-hidden": "true" })
    const pin = (/** @type {Focus} */ focus) => Object.keys(focus).length && change(focus, "place", true)
    /** @param {"x" | "y"} way */
    const arrow = (way) => ({
      get value() {
        return 0
      },
      set value(step) {
        pin(stepped(view, i, way, step))
      },
    })
    const paper = stage.canvas({
      label: () => label(view, i),
      ratio: (width) => Math.round(width < 400 && i < 2 ? width * 0.86 : Math.min(Math.max(width * 0.7, 240), 345)),
      draw: (ctx, width, height, look) => panel.draw(ctx, width, height, look, view),
      point: ({ x, y, down }) => {
        const focus = panel.pick(x, y, view)
        if (down) pin(focus)
        else hover = focus
      },
      leave: () => (hover = {}),
      arrows: { x: arrow("x"), y: arrow("y") },
    })
    const head = make("div", {}, [title, value])
    grid.append(make("div", { class: "explorer-panel" }, [head, text, paper.element]))
    stage.each(() => {
      const [name, words] = captions(view)[i]
      if (title.textContent !== name) title.textContent = name
      if (text.textContent !== words) text.textContent = words
      value.textContent = readings(view)[i]
    })
    return paper
  })

  if (embedded) {
    const link = /** @type {HTMLAnchorElement} */ (make("a", {}, ["Open in the explorer"]))
    stage.add(make("p", {}, [link]))
    stage.each(() => void (link.href = embedded + toQuery(state, given)))
    return
  }
  const act = (/** @type {string} */ name, /** @type {() => void} */ run) => {
    const button = make("button", { type: "button", class: "stage-button" }, [name])
    button.addEventListener("click", run, { signal })
    return button
  }
  const go = (/** @type {State} */ step) => change({ ...defaults(given), ...step }, "tour", false)
  const walk = async () => {
    const { tour } = await import("./tour.js")
    tour(signal, guided, given.tour, { go, done: () => start.focus() })
  }
  const start = act("Take the tour", walk)
  const again = act("Reset", () => change({ ...defaults(given), encoding: state.encoding }, "reset", false))
  kinds.append(make("div", { class: "explorer-acts" }, [start, again]))

  // Take it along: each of these is fetched when it is opened
  const shown = { stage, given, panels: all, view: () => view }
  drawer(stage, "The Python that makes this", async (box) => (await import("./code.js")).fill(box, shown))
  drawer(stage, "Numbers as a table", async (box) => (await import("./numbers.js")).fill(box, shown))
  drawer(stage, "Pictures and numbers to take along", async (box) => (await import("./save.js")).fill(box, shown))
  judged(stage, given)
  stage.each(() => {
    if (stage.host.dataset.measure === undefined) return
    for (const paper of papers) paper.ctx.getImageData(0, 0, 1, 1) // so that it is drawn by now
    performance.measure("explorer redraw", "explorer starts")
  })
}

/** @param {Stage} stage @param {string} title @param {(box: HTMLElement) => void} fill */
const drawer = (stage, title, fill) => {
  const box = make("div")
  const details = stage.add(make("details", {}, [make("summary", {}, [title]), box]))
  details.addEventListener("toggle", () => fill(box), { once: true, signal: stage.signal })
}

/** Say how well these numbers agree with the package's. @param {Stage} stage @param {Given} given */
const judged = (stage, given) => {
  const line = stage.add(make("p", { class: "explorer-judge" }))
  const wait = setTimeout(() => {
    const { worst, points } = agreement(given)
    const size = worst ? worst.toExponential(0).replace("-", "−") : "the last bit"
    line.textContent = `Agrees with posenc ${given.version} to ${size} at ${points} points.`
  }, REST)
  stage.signal.addEventListener("abort", () => clearTimeout(wait))
}
