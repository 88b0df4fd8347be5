// What a key meets on its way from n to m, where token l acts by acts[l], from 0 (not at all) to 1.

/** CoPE's count: the gates are what acts, the key's and the query's among them.
 * @type {(acts: number[], m: number, n: number) => number} */
export const counted = (acts, m, n) => acts.slice(n, m + 1).reduce((sum, act) => sum + act, 0)

/** The share of a key's weight that forget gates let through: a token that acts keeps `gate` of it.
 * @type {(acts: number[], gate: number, m: number, n: number) => number} */
export const faded = (acts, gate, m, n) => gate ** counted(acts, m, n + 1)

/** What is left of a key along w, if each token mirrors it there with strength 2 acts.
 * @type {(acts: number[], m: number, n: number) => number} */
export const turned = (acts, m, n) => acts.slice(n + 1, m + 1).reduce((left, act) => left * (1 - 2 * act), 1)
