// PoPE's phases: how each is held, and what a distance gains by it. posenc/rotate/pope.py in another language.

export const TURN = 2 * Math.PI

/** @typedef {"clamp" | "free"} Held */

/** The angle that a model uses, of the one that it stores. @param {number} stored @param {Held} held */
export const used = (stored, held) => (held === "clamp" ? Math.max(-TURN, Math.min(0, stored)) : stored)

/** What a channel of frequency `theta` gives to the score at distance k, its lengths aside.
 * @type {(k: number, theta: number, stored: number, held: Held) => number} */
export const gives = (k, theta, stored, held) => Math.cos(k * theta - used(stored, held))

/** Which phases lie where a clamp cuts and no gradient comes back. @param {number[]} phases */
export const outside = (phases) => phases.map((stored) => stored > 0 || stored < -TURN)

/** The stored phases at which a channel of frequency `theta` is loudest at distance k, from one turn back to one ahead.
 * @type {(k: number, theta: number) => number[]} */
export const tops = (k, theta) => {
  const ahead = (k * theta) % TURN
  return [ahead - TURN, ahead]
}

/** Numbers in steps of `step`, two letters of base 36 each; `zero` of these is 0.
 * @type {(text: string, zero: number, step: number) => number[]} */
export const unpacked = (text, zero, step) =>
  Array.from({ length: text.length / 2 }, (_, i) => (parseInt(text.slice(2 * i, 2 * i + 2), 36) - zero) * step)
