// Points that go round: the rows of a table in the planes of its bands.

/** Places, `step` rows apart, in hundredths of the mean radius.
 * @typedef {{ step: number, x: number[], y: number[] }} Track */

/** Where the point of a row is, between the rows that are kept: x and y, in mean radii.
 * @type {(track: Track, row: number) => [number, number]} */
export const placeAt = ({ step, x, y }, row) => {
  const place = Math.min(row / step, x.length - 1)
  const n = Math.min(Math.floor(place), x.length - 2)
  const share = place - n
  const between = (/** @type {number[]} */ values) => (values[n] + share * (values[n + 1] - values[n])) / 100
  return [between(x), between(y)]
}

/** How often the point has gone round from the first row to this one; negative where it went clockwise.
 * @type {(track: Track, row: number) => number} */
export const turnsUntil = (track, row) => {
  const { step, x, y } = track
  let [sum, last] = [0, Math.atan2(y[0], x[0])]
  const add = (/** @type {number} */ angle) => {
    const turn = angle - last
    sum += turn - 2 * Math.PI * Math.round(turn / (2 * Math.PI))
    last = angle
  }
  for (let n = 1; n < x.length && n * step <= row; n++) add(Math.atan2(y[n], x[n]))
  const [atX, atY] = placeAt(track, row)
  add(Math.atan2(atY, atX))
  return sum / (2 * Math.PI)
}
