// The explorer. In a chapter, `data` holds a view, `embedded` the page that has the rest.

// All that it needs is named here too, so that a browser asks for it at once and not a level at a time
import "../math/attention.js"
import "../math/biases.js"
import "../math/exponential.js"
import "../math/gelu.js"
import "../math/pope.js"
import "../math/products.js"
import "../math/random.js"
import "../math/rope.js"
import "../math/scaling.js"
import "../math/tables.js"
import "../math/waves.js"
import "../explorer/encodings/add.js"
import "../explorer/encodings/bias.js"
import "../explorer/encodings/common.js"
import "../explorer/encodings/counting.js"
import "../explorer/encodings/places.js"
import "../explorer/encodings/rotate.js"
import "../explorer/encodings/score.js"
import "../explorer/model.js"
import "../explorer/panels.js"
import "../explorer/query.js"
import "../explorer/settings.js"
import "../explorer/captions.js"
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
  const attribute = page.querySelector("posenc-figure[name=explorer]")?.getAttribute("data")
  if (!attribute) return false
  build(stage, unpacked({ ...JSON.parse(attribute), ...data }))
}
