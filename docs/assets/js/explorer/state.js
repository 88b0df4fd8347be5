// What is set, pointed at and seen, of one view or of two; and its address.

import { address } from "./address.js"
import { isLogit, kindOf } from "./kinds.js"
import { explorer } from "./model.js"
import { asked, otherAsked, SHARED, shared, toQuery, unknown } from "./query.js"
import { defaults, settle } from "./defaults.js"

/** @import { Stage } from "../kit/stage.js" */
/** @import { Focus, PageData, State, View } from "./types.js" */
/** @typedef {ReturnType<typeof createApp>} App */

/** A wish whose encoding changes: what the old one began with gives way to what the new one begins with, and a bias is
 * shown over the positions that there are.
 * @type {(wish: State, encoding: string, data: PageData) => State} */
const become = (wish, encoding, data) => {
  const [before, after] = [wish.encoding, encoding].map((name) => defaults(data, name, !wish.words))
  /** @type {State} */
  const next = { ...wish, encoding }
  if (isLogit(next)) next.far = false
  for (const name of Object.keys(after))
    if (name !== "words" && before[name] !== after[name] && wish[name] === before[name]) next[name] = after[name]
  return next
}

/** From a sentence to numbers or back, the reader looks where one looks first.
 * @type {(wish: State, change: State, data: PageData) => State} */
const reworded = (wish, change, data) => {
  if (change.words === undefined || !change.words === !wish.words) return change
  const { query, key } = defaults(data, wish.encoding, !change.words)
  return { query, key, ...change }
}

/** @param {Stage} stage @param {PageData} data */
export const createApp = (stage, data) => {
  const compute = [explorer(data), explorer(data)]
  /** @type {State} what the reader has set, though other knobs may forbid it for now */
  let wish = data.embedded
    ? { ...defaults(data, data.state?.encoding, !data.state?.words), ...data.state }
    : asked(location.search, data)
  /** @type {State | null} */
  let beside = data.embedded ? null : otherAsked(location.search, data)
  const first = settle(wish, data)
  const app = {
    state: first,
    /** @type {State | null} */
    other: null,
    /** @type {"A" | "B"} whose knobs the reader turns */
    side: /** @type {"A" | "B"} */ ("A"),
    notice: "",
    hover: /** @type {Focus} */ ({}),
    view: compute[0](first),
    /** @type {View | null} */
    beside: null,
    /** The state whose knobs are turned. */
    set: () => (app.side === "B" && app.other) || app.state,
    query: () => toQuery(app.state, data, app.other),
    see: () => {
      app.view = compute[0]({ ...app.state, ...app.hover })
      app.beside = app.other && compute[1]({ ...app.other, ...app.hover })
    },
    /** @param {State} change @param {string} knob @param {boolean} moves */
    change: (change, knob, moves) => {
      const all = Object.entries(change)
      const ours = Object.fromEntries(all.filter(([name]) => app.side === "A" || SHARED.includes(name)))
      const theirs = Object.fromEntries(all.filter(([name]) => app.side === "B" && !SHARED.includes(name)))
      const turned = (/** @type {State} */ old, /** @type {State} */ new_) =>
        new_.encoding && knob === "encoding"
          ? become(old, new_.encoding, data)
          : { ...old, ...reworded(old, new_, data) }
      wish = turned(wish, ours)
      if (beside) beside = turned(beside, theirs)
      show()
      bar?.write(app.query(), knob, moves)
    },
    /** Keep the view as B, or let it go. */
    compare: () => {
      beside = beside ? null : { ...wish }
      app.side = "A"
      show()
      bar?.write(app.query(), "compare", false)
    },
    /** @param {"A" | "B"} side */
    turn: (side) => {
      app.side = side
      stage.changed()
    },
  }
  const show = () => {
    app.state = settle(wish, data)
    app.other = beside && settle({ ...beside, ...shared(app.state) }, data)
    if (!app.other) app.side = "A"
    app.hover = {}
    app.notice = ""
    stage.changed()
  }
  const read = (/** @type {string} */ query) => {
    wish = asked(query, data)
    beside = otherAsked(query, data)
    show()
    const [name] = unknown(query)
    if (name === undefined) return
    app.notice = `There is no encoding “${name}” here, so this is ${kindOf(app.state).name}. The list above has all of them.`
    bar?.correct(app.query())
  }
  const top = () => stage.element.scrollIntoView({ block: "start" })
  const bar = data.embedded ? null : address(stage.signal, { read, show: top })
  if (bar) read(location.search)
  return app
}
