// Every encoding that the explorer draws, by its name in the package.

import { ADD } from "./add.js"
import { BIAS } from "./bias.js"
import { COUNTING } from "./counting.js"
import { PLACES } from "./places.js"
import { ROTATE } from "./rotate.js"
import { SCORE } from "./score.js"

export const ENCODINGS = { ...ADD, ...ROTATE, ...PLACES, ...BIAS, ...SCORE, ...COUNTING }
