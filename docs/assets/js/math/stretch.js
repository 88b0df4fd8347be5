// What stretched frequencies cost: angles that training never showed, and shorter steps.

/** The positions that one turn takes, pair by pair. @param {ArrayLike<number>} theta */
export const wavelengths = (theta) => Float64Array.from(theta, (t) => (2 * Math.PI) / t)

/** How often each pair goes round on a text. @param {ArrayLike<number>} theta @param {number} length */
export const turns = (theta, length) => Float64Array.from(theta, (t) => (length * t) / (2 * Math.PI))

/** The pair that meets new angles first, among those that never went round, and the longest text on which none does.
 * @param {ArrayLike<number>} theta @param {ArrayLike<number>} trainedTheta @param {number} trained */
export const reach = (theta, trainedTheta, trained) => {
  let [pair, most] = [-1, 0]
  turns(trainedTheta, trained).forEach((went, i) => {
    const ratio = theta[i] / trainedTheta[i]
    if (went < 1 && ratio > most * (1 + 1e-12)) [pair, most] = [i, ratio]
  })
  return { pair, length: trained / most }
}

/** How often the steps of the pairs that went round are halved, on average.
 * @type {(theta: ArrayLike<number>, trainedTheta: ArrayLike<number>, trained: number) => number} */
export const squeeze = (theta, trainedTheta, trained) => {
  let [sum, count] = [0, 0]
  turns(trainedTheta, trained).forEach((went, i) => {
    if (went >= 1) [sum, count] = [sum + Math.log2(trainedTheta[i] / theta[i]), count + 1]
  })
  return count ? sum / count : 0
}

/** The share of the circle that each pair has met in training, and that a text asks for: never less.
 * @param {ArrayLike<number>} theta @param {number} length @param {ArrayLike<number>} trainedTheta
 * @param {number} trained */
export const arcs = (theta, length, trainedTheta, trained) => {
  const met = turns(trainedTheta, trained).map((went) => Math.min(went, 1))
  return { met, asked: turns(theta, length).map((goes, i) => Math.max(met[i], Math.min(goes, 1))) }
}
