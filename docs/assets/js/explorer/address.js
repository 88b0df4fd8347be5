// The state in the address bar: one entry of the history for each view that a reader stopped at.

const PAUSE = 250 // milliseconds of rest before a moving knob is written down
const SAME = 2000 // moves of one knob that follow each other so fast are one entry

/** @param {AbortSignal} signal @param {{ read: (query: string) => void, show: () => void }} page */
export const address = (signal, { read, show }) => {
  const here = location.pathname
  let [wait, last, when] = [0, "", 0]

  /** @param {string} query @param {boolean} push */
  const put = (query, push) => {
    if (query === location.search || location.pathname !== here) return
    const place = { x: scrollX, y: scrollY } // what the theme keeps there, and looks for when one comes back
    try {
      if (push) history.replaceState(place, "")
      history[push ? "pushState" : "replaceState"](place, "", here + query)
    } catch {
      // a browser that has had too many of them
    }
  }

  /** The reader has moved `knob`, and may go on moving it.
   * @param {string} query @param {string} knob @param {boolean} moves */
  const write = (query, knob, moves) => {
    const now = performance.now()
    const more = moves && knob === last && now - when < SAME
    ;[last, when] = [moves ? knob : "", now]
    clearTimeout(wait)
    if (more) wait = setTimeout(() => put(query, false), PAUSE)
    else put(query, true)
  }

  signal.addEventListener("abort", () => clearTimeout(wait))
  const back = () => {
    if (location.pathname !== here) return
    clearTimeout(wait)
    last = ""
    read(location.search)
    if (typeof history.state?.y === "number") scrollTo(0, history.state.y)
  }
  window.addEventListener("popstate", back, { signal })
  // The theme loads no page for a link that differs in the query alone, and takes it out of the history again
  const follow = (/** @type {MouseEvent} */ event) => {
    const link = event.target instanceof Element && event.target.closest("a")
    if (!link || event.button || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return
    const to = new URL(link.href, location.href)
    if (to.origin !== location.origin || to.pathname !== here || to.hash || link.target || link.download) return
    event.preventDefault()
    event.stopPropagation()
    put(to.search, true)
    read(to.search)
    show()
  }
  document.addEventListener("click", follow, { capture: true, signal })
  return { write, correct: (/** @type {string} */ query) => put(query, false) }
}
