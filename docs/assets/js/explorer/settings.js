// The knobs: what can be set, in which words, and when it applies. Every number comes from the page.

import { biased, channeled, kindOf } from "./kinds.js"

/** @import { Knob, State } from "./types.js" */

const BY_LENGTH = ["dynamic_ntk", "by_parts", "yarn", "llama3"] // scalings that know the original length
const STRETCH = ["linear", "ntk", ...BY_LENGTH]
const RANDOM = ["random", "tokens"]
// weights from the seed
const DRAWS = ["fourier", "convolution", "conditional", "fope", "lerope", "liere", "selective", "repo"]

const own = (/** @type {string} */ name) => (/** @type {State} */ s) => kindOf(s).knobs.includes(name)
export const trained = (/** @type {State} */ s) => s.encoding === "learned" && s.table === "trained"
const drawn = (/** @type {State} */ s) =>
  own("seed")(s) &&
  ((own("content")(s) && RANDOM.includes(s.content)) ||
    (s.encoding === "pope" && s.phase === "uniform") ||
    (s.encoding === "learned" && !trained(s)) ||
    (s.encoding === "fourier" && s.features === "gaussian") ||
    (DRAWS.includes(s.encoding) && s.encoding !== "fourier") ||
    ["bias", "score"].includes(kindOf(s).door))
const peaked = (/** @type {State} */ s) => (s.encoding === "rope" ? s.content === "peak" : s.phase === "peak")
const both = (/** @type {string} */ name, /** @type {(s: State) => boolean} */ too) => (/** @type {State} */ s) =>
  own(name)(s) && too(s)
const scaled = (/** @type {string} */ name, /** @type {string[]} */ names) =>
  both(name, (s) => s.encoding !== "rope" || names.includes(s.scaling))
// encodings without a response beyond the positions that are drawn; a sentence has none either
const NEAR = ["learned", "fourier", "convolution", "mrope", "fope", "selective", "repo", "cope", "forget", "path"]
const farther = (/** @type {State} */ s) =>
  !s.words && !NEAR.includes(s.encoding) && !kindOf(s).grid && !(own("content")(s) && s.content === "tokens")

/** A knob, which applies to the encodings that have it, or by a rule.
 * @type {(name: string, label: string, kind: Knob["kind"], help: string, when?: (s: State) => boolean,
 *   more?: Partial<Knob>) => Knob} */
const knob = (name, label, kind, help, when = own(name), more = {}) => ({ name, label, kind, help, when, ...more })

const WHOLE = { whole: true }
const always = () => true
const worded = (/** @type {State} */ s) => !kindOf(s).grid && s.encoding !== "mrope"

export const KNOBS = [
  knob("encoding", "encoding", "choice", "How positions enter the model.", always),
  knob("words", "sentence", "text", "Up to 24 tokens, split at spaces. Empty: numbered positions instead.", worded),
  knob("order", "order", "choice", "How sines and cosines are laid out over the channels."),
  knob("table", "table", "choice", "As it starts, or as training left it."),
  knob(
    "features",
    "features",
    "choice",
    "Where the frequencies come from: doubled each time, evenly spaced, or drawn.",
  ),
  knob("axes_order", "order", "choice", "How rows, columns, sines and cosines share the channels."),
  knob("form", "form", "choice", "The curve by which a bias falls."),
  knob(
    "layout",
    "pairs",
    "choice",
    "Which two channels make a pair: half a head apart (half layout), or neighbors (interleaved).",
  ),
  knob("scaling", "context extension", "choice", "How frequencies are rescaled for texts longer than in training."),
  knob("factor", "factor", "log", "How many times the training length texts shall have.", scaled("factor", STRETCH)),
  knob(
    "original_length",
    "training length",
    "log",
    "The longest text of training, in tokens.",
    scaled("original_length", BY_LENGTH),
    WHOLE,
  ),
  knob(
    "fraction",
    "rotated part",
    "share",
    "The share of the pairs that are rotated; those of low frequency get frequency 0.",
    scaled("fraction", ["proportional"]),
  ),
  knob("share", "rotated share", "share", "The share of the channels that are rotated (partial_rotary_factor)."),
  knob("length", "positions", "integer", "How many positions are drawn.", (s) => !s.words && worded(s)),
  knob("side", "picture side", "integer", "Patches along a side of the square picture."),
  knob("before", "tokens around it", "integer", "Text tokens before the picture, and as many after it."),
  knob(
    "width",
    "channels",
    "integer",
    "Numbers in a vector: the width of a head, or of the encoding.",
    both("width", (s) => !trained(s)),
    { step: 2 },
  ),
  knob("base", "base", "log", "Sets the frequencies: the larger the base, the lower the lowest of them."),
  knob("first", "first position", "integer", "The number of the first position."),
  knob("scale_base", "fade length", "log", "Over how many positions logits decay by a fixed factor.", undefined, WHOLE),
  knob("gain", "mixing", "share", "How much of other frequencies is mixed into each pair."),
  knob("spread", "spread", "share", "How far the learned numbers lie from where they started."),
  knob("strength", "strength", "share", "How strongly content moves the position."),
  knob("scale", "spread of features", "log", "How large the drawn frequencies are."),
  knob("interleaved", "interleave the axes", "toggle", "Every third pair to the row, every third to the column."),
  knob("block", "block", "choice", "How many channels a rotation mixes."),
  knob("content", "query and key", "choice", "What the vectors hold before the encoding acts."),
  knob("phase", "phase", "choice", "A learned angle for each channel."),
  knob("peak", "peak at offset", "integer", "The offset at which the logit is highest.", both("peak", peaked)),
  knob("taps", "reach of the filter", "integer", "How many neighbors the filter covers."),
  knob("heads", "heads", "integer", "How many heads the layer has."),
  knob("head", "head", "integer", "Whose bias is drawn."),
  knob("window", "window", "integer", "Rows and columns of a window; farther patches count as its edge."),
  knob("clip", "rows of the table", "integer", "Farther keys share the last row."),
  knob("buckets", "buckets", "integer", "Numbers that all distances share."),
  knob("max_distance", "last bucket from", "integer", "From this distance on, all keys are in one bucket."),
  knob("bidirectional", "tell the keys ahead apart", "toggle", "Half of the buckets for keys ahead."),
  knob("r1", "r1 of this head", "log", "How strong the bias is."),
  knob("r2", "r2 of this head", "log", "How fast it falls."),
  knob("c", "c", "log", "How early FIRE’s logarithm bends."),
  knob("threshold", "threshold", "log", "Up to here all queries share one normalizer.", undefined, WHOLE),
  knob("rank", "curves", "integer", "How many curves are mixed."),
  knob("extent", "reach", "integer", "Farther keys get nothing."),
  knob("opening", "open gates", "share", "How open the gates start: 0 forgets fast."),
  knob("seed", "seed", "integer", "Another draw of all random numbers.", drawn),
  knob("softmax", "as attention (softmax)", "toggle", "The softmax of these logits alone.", always),
  knob("causal", "causal mask", "toggle", "Hide the keys after the query, as in a decoder.", always),
  knob("far", "offsets to 128k", "toggle", "Draw the response over a logarithmic axis.", farther),
  knob("query", "query", "integer", "The query: whose row is read.", always),
  knob("key", "key", "integer", "The key: which column is read.", always),
  knob("channel", "channel", "integer", "The column of the pattern, and its pair.", channeled),
]
