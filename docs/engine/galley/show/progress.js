// Under `mkdocs serve`: how many pages have run, in a line at the foot of the window. A built site has no such script.

const tag = document.querySelector("script[data-page]")
const page = tag instanceof HTMLElement ? tag.dataset.page : ""
const line = document.createElement("p")
line.setAttribute("role", "status")
line.style.cssText = `position: fixed; z-index: 9; bottom: 0; left: 0; margin: 0; padding: 0.3em 0.9em; max-width: 100%;
  font: 0.7rem/1.5 var(--sans, sans-serif); color: var(--md-default-fg-color); background: var(--md-default-bg-color);
  border: 1px solid var(--md-default-fg-color--lightest); border-width: 1px 1px 0 0`

/** @param {{ ended: number, pages: number, running: string[], failed: string[] }} state */
const said = ({ ended, pages, running, failed }) => {
  const here = failed.includes(page) ? "This page failed. " : running.includes(page) ? "This page runs now. " : ""
  const others = failed.length ? ` Failed: ${failed.join(", ")}.` : ""
  return ended < pages ? `${here}${ended} of ${pages} pages have run.${others}` : here + others
}

const look = async () => {
  try {
    const answer = await fetch(new URL("progress.json", import.meta.url))
    const state = await answer.json()
    line.textContent = said(state).trim()
    if (line.textContent) document.body.append(line)
    else line.remove()
    if (state.ended < state.pages) setTimeout(look, 1000)
  } catch {
    setTimeout(look, 3000) // the site is being built
  }
}
look()
