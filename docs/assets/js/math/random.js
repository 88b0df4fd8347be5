// numpy.random.RandomState, draw for draw: NumPy promises that its streams never change.

const SIZE = 624
const SHIFT = 397

/** The Mersenne Twister of a seed: 32 random bits a call. @param {number} seed @returns {() => number} */
const twister = (seed) => {
  const state = new Uint32Array(SIZE)
  state[0] = seed
  for (let i = 1; i < SIZE; i++) {
    const last = state[i - 1] ^ (state[i - 1] >>> 30)
    state[i] = Math.imul(0x6c078965, last) + i
  }
  let place = SIZE
  const refill = () => {
    for (let i = 0, next = 1, far = SHIFT; i < SIZE; i++, next++, far++) {
      if (next === SIZE) next = 0
      if (far === SIZE) far = 0
      const both = (state[i] & 0x80000000) | (state[next] & 0x7fffffff)
      state[i] = state[far] ^ (both >>> 1) ^ (-(both & 1) & 0x9908b0df)
    }
    place = 0
  }
  return () => {
    if (place === SIZE) refill()
    let bits = state[place++]
    bits ^= bits >>> 11
    bits ^= (bits << 7) & 0x9d2c5680
    bits ^= (bits << 15) & 0xefc60000
    return (bits ^ (bits >>> 18)) >>> 0
  }
}

/** @param {number} seed */
export const randomState = (seed) => {
  const bits = twister(seed)
  const uniform = () => ((bits() >>> 5) * 2 ** 26 + (bits() >>> 6)) / 2 ** 53
  let spare = NaN
  const normal = () => {
    if (spare === spare) {
      const value = spare
      spare = NaN
      return value
    }
    for (;;) {
      const x = 2 * uniform() - 1
      const y = 2 * uniform() - 1
      const square = x * x + y * y
      if (square >= 1 || square === 0) continue
      const stretch = Math.sqrt((-2 * Math.log(square)) / square)
      spare = stretch * x
      return stretch * y
    }
  }
  return { uniform, normal }
}
