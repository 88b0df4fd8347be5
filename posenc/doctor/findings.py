"""The list of findings: each cause of what is wrong, by a stable identifier, its meaning, the page on it.

A check that can be wrong needs a line here; its sentence stands in the check.
"""

SITE = "https://posenc.github.io/posenc/"
BUGS_FORMULAS, BUGS_CACHES, BUGS_SYSTEMS = "museum/bugs-formulas/#", "museum/bugs-caches/#", "museum/bugs-systems/#"
ROTATIONS, TABLES, SINUSOIDS = "museum/rotations/#", "museum/tables/#", "museum/sinusoids/#"
BIASES, ORDER = "museum/biases/#", "museum/order/#"
NOT_FINITE = "chapters/6-guide/precision/#by-type-and-position"

CAUSES = {
    # All kinds
    "not-finite": ("the result holds a NaN or an infinity", NOT_FINITE),
    "dropout-on": ("two calls differ: dropout is on in eval mode", f"{ORDER}heat-map-in-train-mode"),
    "in-place": ("the input is written to", f"{BUGS_SYSTEMS}phases-drawn-in-place"),
    "no-gradient": ("no gradient arrives", f"{BUGS_SYSTEMS}phase-beyond-the-clamp"),
    "gradient-wrong": ("a gradient is not that of the result", f"{BUGS_SYSTEMS}phase-beyond-the-clamp"),
    "absolute": ("the result depends on positions, not on offsets only", f"{BUGS_FORMULAS}old-table-stays"),
    "heads-axis": ("positions run along the axis of heads", f"{BUGS_FORMULAS}stamped-along-the-batch"),
    "batch-axis": ("positions run along the axis of the batch", f"{BUGS_FORMULAS}stamped-along-the-batch"),
    "rows-mixed": ("a text gets the positions of another", f"{BUGS_CACHES}one-count-for-the-batch"),
    "cache-stale": ("a cached table belongs to another call", f"{BUGS_CACHES}remembered-by-length"),
    "length-dependent": (
        "frequencies or scales depend on the length",
        f"{BUGS_CACHES}frequencies-change-under-the-keys",
    ),
    # Frequencies: the exponent, the base, a scaling
    "exponent-inverted": ("positions are divided by the frequencies", f"{BUGS_FORMULAS}divided-by-the-frequency"),
    "exponent-rising": ("frequencies rise along the channels", f"{ROTATIONS}exponent-without-minus"),
    "exponent-halved": ("an exponent of i/d where 2i/d is due, or the base's root", f"{TABLES}frequencies-squared"),
    "exponent-doubled": ("an exponent of 4i/d where 2i/d is due", f"{TABLES}frequencies-squared"),
    "exponent-flat": ("all pairs have one frequency: an integer division", f"{BUGS_FORMULAS}quotient-of-integers"),
    "exponent-shifted": ("the exponent starts at 2/d, not at 0", f"{SINUSOIDS}i-is-no-channel"),
    "exponent-precedence": ("an operator binds before another is meant to", f"{BUGS_FORMULAS}divide-then-floor"),
    "width-wrong": ("another number of channels rotates than the code says", f"{ROTATIONS}neighbors-are-the-pairs"),
    "base-ignored": ("the base argument is not used", f"{BUGS_SYSTEMS}type-renamed"),
    "scaling-ignored": ("the factor of a scaling is not used", f"{BUGS_SYSTEMS}stretch-under-another-name"),
    "crossed": ("sine and cosine of a pair have different frequencies", f"{BUGS_FORMULAS}cosine-of-its-own"),
    "still": ("no pair rotates", f"{BUGS_FORMULAS}quotient-of-integers"),
    "not-linear-in-position": ("angles do not grow linearly with the position", f"{ROTATIONS}steps-of-sixteen"),
    "against-config": ("the rotation is not the one of the configuration", f"{BUGS_SYSTEMS}stretch-under-another-name"),
    "factor-twice": ("YaRN's attention factor is applied twice", f"{BUGS_FORMULAS}yarn-factor-twice"),
    # Positions
    "positions-ignored": ("the positions passed are not used", f"{BUGS_CACHES}every-call-from-zero"),
    "positions-shifted": ("positions do not start at 0", f"{TABLES}first-missing-row"),
    "offset-ignored": ("positions start at 0 in each call", f"{BUGS_CACHES}every-call-from-zero"),
    "clipped": ("positions beyond a limit are all equal", f"{TABLES}any-length"),
    "wrapped": ("positions beyond a limit start again at 0", f"{TABLES}any-length"),
    "axis-lost": ("one axis of the grid is not used", f"{BUGS_SYSTEMS}picture-read-as-line"),
    "axes-swapped": ("rows of the grid are taken for columns", f"{BUGS_SYSTEMS}swaps-cancel-on-squares"),
    # Precision
    "positions-rounded": ("positions are rounded to half precision", f"{BUGS_CACHES}counted-in-the-models-type"),
    "angles-rounded": ("angles, or cosines and sines, are rounded to half precision", f"{ROTATIONS}steps-of-sixteen"),
    "buffers-rounded": ("buffers are cast together with their module", f"{BUGS_CACHES}buffer-follows-its-module"),
    "bias-rounded": ("the bias is rounded until neighbors share a number", f"{ROTATIONS}steps-of-sixteen"),
    "precision-lost": ("half precision is applied before the result", f"{ROTATIONS}steps-of-sixteen"),
    # Rotations
    "not-a-rotation": ("pairs are mixed or scaled, not rotated", f"{ROTATIONS}one-term-twice"),
    "layout-mixed": ("pairs of one layout, angles of the other", f"{ROTATIONS}neighbors-are-the-pairs"),
    "padded-with-one": ("pairs that do not rotate are multiplied by sqrt(2)", f"{BUGS_FORMULAS}rest-that-stretches"),
    "one-side": ("only queries are rotated, or only keys", f"{ROTATIONS}values-are-turned-too"),
    "sides-differ": ("queries and keys are rotated differently", f"{ROTATIONS}matrix-and-formula-disagree"),
    "opposite": ("queries and keys are rotated in opposite directions", f"{ROTATIONS}matrix-and-formula-disagree"),
    "one-for-both": ("keys are computed from queries, or queries from keys", f"{ROTATIONS}values-are-turned-too"),
    "swapped": ("keys and queries are returned in the other order", f"{ROTATIONS}values-are-turned-too"),
    # Tables
    "rows-alike": ("positions share a row", f"{SINUSOIDS}all-rows-differ"),
    "order-broken": ("sines and cosines are in no usual order", f"{SINUSOIDS}sines-before-cosines"),
    "scale-twice": ("the width scales embeddings where its square root belongs", f"{TABLES}root-d-one-scale"),
    "embeddings-lost": ("the embeddings do not come through", f"{ORDER}residual-before-the-sum"),
    # Biases
    "sign-reversed": ("the bias favors far keys", f"{BIASES}query-minus-key"),
    "penalty-reversed": ("the weights favor far keys", f"{BIASES}query-minus-key"),
    "slopes-wrong": ("the slopes are not those of ALiBi", f"{BUGS_FORMULAS}heads-counted-from-zero"),
    "decode-aligned-first": ("a lone query is aligned with the first key", f"{BUGS_CACHES}is-causal-counts-from-first"),
    "one-direction-lost": ("keys ahead are taken for keys behind the query", f"{TABLES}t5-is-not-shaw"),
    "buckets-wrong": ("buckets do not widen with the distance", f"{TABLES}t5-is-not-shaw"),
    "queries-mixed": ("the bias of a query is computed from another query", f"{BIASES}query-minus-key"),
    "scaled-wrong": ("a factor of the module is not applied to the bias", f"{BIASES}t5-divides"),
    "transposed": ("queries and keys are exchanged", f"{BIASES}query-minus-key"),
    # Attentions and models
    "future-seen": ("a query attends to keys ahead of it", f"{ORDER}penalty-is-not-a-mask"),
    "self-hidden": ("a query does not attend to its own key", f"{ORDER}penalty-is-not-a-mask"),
    "mask-off-by-one": ("the mask hides one key too many or too few", f"{ORDER}penalty-is-not-a-mask"),
    "mask-ignored": ("the mask is not used", f"{BUGS_CACHES}left-pads-are-counted"),
    "mask-inverted": ("the mask hides what it should show", f"{BUGS_CACHES}left-pads-are-counted"),
    "padding-counted": ("positions count the padding", f"{BUGS_CACHES}left-pads-are-counted"),
    "scale-missing": ("logits are not divided by sqrt(d)", f"{BIASES}t5-divides"),
    "scale-wrong": ("logits are divided by another number than sqrt(d)", f"{BIASES}t5-divides"),
    "weights-wrong": ("weights do not sum to 1 over the keys", f"{ORDER}attends-to-itself"),
    "values-moved": ("values are rotated or shifted together with keys", f"{ROTATIONS}values-are-turned-too"),
    "turned-twice": ("keys or queries are rotated twice", f"{BUGS_CACHES}turned-once-more"),
    "heads-mixed": ("heads are mixed with each other or with tokens", f"{BUGS_FORMULAS}stamped-along-the-batch"),
    "groups-tiled": ("query heads share the wrong key heads", f"{BUGS_FORMULAS}twelve-heads-by-formula"),
    "bias-lost": ("a bias is computed and not added to the logits", f"{BUGS_FORMULAS}old-table-stays"),
    "cache-wrong": ("decoding with the cache does not equal prefill", f"{BUGS_CACHES}every-call-from-zero"),
    "kept-for-seen": ("positions count the keys kept, not the tokens seen", f"{BUGS_CACHES}kept-for-seen"),
    "batch-mixed": ("a text depends on its neighbors in the batch", f"{BUGS_CACHES}one-count-for-the-batch"),
}


def page_of(cause: str) -> str:
    """Return the address of the page that explains a cause, "" where there is none."""
    return f"{SITE}{CAUSES[cause][1]}" if cause in CAUSES else ""
