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
const scaled = (/** @type {State} */ s, /** @type {string[]} */ names) =>
  s.encoding !== "rope" || names.includes(s.scaling)
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
const farther = (/** @type {State} */ s) =>
  !["learned", "fourier", "convolution", "mrope", "fope", "selective", "repo", "cope", "forget", "path"].includes(
    s.encoding,
  ) &&
  !kindOf(s).grid &&
  !(own("content")(s) && s.content === "tokens")

/** @type {(name: string, label: string, kind: Knob["kind"], when: (s: State) => boolean, help: string,
 *   more?: Partial<Knob>) => Knob} */
const knob = (name, label, kind, when, help, more = {}) => ({ name, label, kind, when, help, ...more })

const WHOLE = { whole: true }
const always = () => true
const worded = (/** @type {State} */ s) => !kindOf(s).grid && s.encoding !== "mrope"

export const KNOBS = [
  knob("encoding", "encoding", "choice", always, "How the model is told where each word stands."),
  knob("words", "sentence", "text", worded, "Up to 24 words, split at spaces. Empty: numbered positions instead."),
  knob("order", "order", "choice", own("order"), "How sines and cosines are laid out over the channels."),
  knob("table", "table", "choice", own("table"), "As it starts, or as training left it."),
  knob(
    "features",
    "features",
    "choice",
    own("features"),
    "Where the frequencies come from: doubled each time, evenly spaced, or drawn.",
  ),
  knob("axes_order", "order", "choice", own("axes_order"), "How rows, columns, sines and cosines share the channels."),
  knob("form", "form", "choice", own("form"), "The curve by which a bias falls."),
  knob("layout", "pairs", "choice", own("layout"), "Which two channels turn together: a half apart, or neighbors."),
  knob("scaling", "stretching", "choice", own("scaling"), "A recipe for texts longer than those of training."),
  knob(
    "factor",
    "stretch factor",
    "log",
    both("factor", (s) => scaled(s, STRETCH)),
    "How many times longer texts shall be.",
  ),
  knob(
    "original_length",
    "trained length",
    "log",
    both("original_length", (s) => scaled(s, BY_LENGTH)),
    "The longest text of training, in tokens.",
    WHOLE,
  ),
  knob(
    "fraction",
    "turning part",
    "share",
    both("fraction", (s) => scaled(s, ["proportional"])),
    "The share of the pairs that turn; the slow ones stand still.",
  ),
  knob(
    "share",
    "share that turns",
    "share",
    own("share"),
    "The share of the channels that turn; the others know no position.",
  ),
  knob("length", "positions", "integer", (s) => !s.words && worded(s), "How many positions are drawn."),
  knob("side", "picture side", "integer", own("side"), "Patches along a side of the square picture."),
  knob("before", "words around it", "integer", own("before"), "Words before the picture, and as many after it."),
  knob(
    "width",
    "channels",
    "integer",
    both("width", (s) => !trained(s)),
    "Numbers in a vector: the width of a head, or of the code.",
    { step: 2 },
  ),
  knob("base", "base", "log", own("base"), "Sets the slowest wave: the larger, the slower."),
  knob("first", "first position", "integer", own("first"), "The number of the first position."),
  knob(
    "scale_base",
    "fade length",
    "log",
    own("scale_base"),
    "Over how many positions scores fade by a fixed factor.",
    WHOLE,
  ),
  knob("gain", "mixing", "share", own("gain"), "How much of other frequencies is mixed into each pair."),
  knob("spread", "spread", "share", own("spread"), "How far the learned numbers lie from where they started."),
  knob("strength", "strength", "share", own("strength"), "How strongly content moves the position."),
  knob("scale", "spread of features", "log", own("scale"), "How fast drawn features turn."),
  knob(
    "interleaved",
    "interleave the axes",
    "toggle",
    own("interleaved"),
    "Every third pair to the row, every third to the column.",
  ),
  knob("block", "block", "choice", own("block"), "How many channels turn together."),
  knob("content", "query and key", "choice", own("content"), "What the vectors hold before the encoding acts."),
  knob("phase", "phase", "choice", own("phase"), "A learned angle for each channel."),
  knob("peak", "peak at distance", "integer", both("peak", peaked), "The distance at which the score is highest."),
  knob("taps", "reach of the filter", "integer", own("taps"), "How many neighbors the filter sees."),
  knob("heads", "heads", "integer", own("heads"), "How many heads the layer has."),
  knob("head", "head", "integer", own("head"), "Whose bias is drawn."),
  knob(
    "window",
    "window",
    "integer",
    own("window"),
    "Rows and columns of a window; farther patches count as its edge.",
  ),
  knob("clip", "rows of the table", "integer", own("clip"), "Farther keys share the last row."),
  knob("buckets", "buckets", "integer", own("buckets"), "Numbers that all distances share."),
  knob(
    "max_distance",
    "last bucket from",
    "integer",
    own("max_distance"),
    "From this distance on, all keys are in one bucket.",
  ),
  knob(
    "bidirectional",
    "tell the keys ahead apart",
    "toggle",
    own("bidirectional"),
    "Half of the buckets for keys ahead.",
  ),
  knob("r1", "r1 of this head", "log", own("r1"), "How strong the bias is."),
  knob("r2", "r2 of this head", "log", own("r2"), "How fast it falls."),
  knob("c", "c", "log", own("c"), "How early FIRE’s ruler bends."),
  knob("threshold", "threshold", "log", own("threshold"), "Up to here all queries have one ruler.", WHOLE),
  knob("rank", "curves", "integer", own("rank"), "How many curves are mixed."),
  knob("extent", "reach", "integer", own("extent"), "Farther keys get nothing."),
  knob("opening", "open gates", "share", own("opening"), "How open the gates start: 0 forgets fast."),
  knob("seed", "seed", "integer", drawn, "Another draw of all random numbers."),
  knob("softmax", "as attention (softmax)", "toggle", always, "What attention would make of these scores alone."),
  knob("causal", "hide the keys ahead", "toggle", always, "As in a language model, which sees the past only."),
  knob("far", "distances to 128k", "toggle", farther, "Draw the response over a logarithmic axis."),
  knob("query", "looking word (query)", "integer", always, "The query: whose row is read."),
  knob("key", "seen word (key)", "integer", always, "The key: which column is read."),
  knob("channel", "channel", "integer", channeled, "The column of the pattern, and its pair."),
]
