// The explorer. In a chapter, `data` holds a view, `embedded` the page that has the rest.

import { build } from "../explorer/app.js"

/** Tables and values to be judged by, as numbers. @param {any} data */
const unpacked = (data) => {
  const { trained } = data
  const bytes = Uint8Array.from(atob(trained.table), (letter) => letter.charCodeAt(0))
  const table = Float64Array.from(new Int16Array(bytes.buffer), (whole) => whole / 10 ** trained.digits)
  const golden = data.golden.map((/** @type {any[]} */ [state, ...numbers]) => [state, ...numbers.map(Number)])
  return { ...data, golden, trained: { ...trained, table } }
}

/** @param {import("../kit/stage.js").Stage} stage */
export default async function explorer(stage) {
  const { data, signal } = stage
  if (data.knobs) return build(stage, unpacked(data))
  const text = await fetch(data.embedded, { signal }).then(
    (answer) => answer.text(),
    () => "",
  )
  const page = new DOMParser().parseFromString(text, "text/html")
  const all = page.querySelector("posenc-figure[name=explorer]")?.getAttribute("data")
  if (!all) return false
  build(stage, unpacked({ ...JSON.parse(all), ...data }))
}
