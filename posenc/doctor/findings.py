"""What can be wrong, each cause with a name that stays, and the page that explains it."""

SITE = "https://posenc.github.io/posenc/"
CAUSES = {
    # The exponent, the base, the angles
    "exponent-inverted": ("positions are divided by the frequencies", "museum/bugs-formulas/#divided-by-the-frequency"),
    "exponent-rising": ("speeds rise along the channels", "museum/rotations/#exponent-without-minus"),
    "exponent-halved": (
        "an exponent of i/d where 2i/d is due, or the base's root",
        "museum/tables/#frequencies-squared",
    ),
    "exponent-doubled": ("an exponent of 4i/d where 2i/d is due", "museum/tables/#frequencies-squared"),
    "exponent-flat": ("all pairs turn alike: an integer division", "museum/bugs-formulas/#quotient-of-integers"),
    "exponent-shifted": ("the exponent starts at 2/d, not at 0", "museum/sinusoids/#i-is-no-channel"),
    "exponent-precedence": ("operators bind otherwise than meant", "museum/bugs-formulas/#divide-then-floor"),
    "width-wrong": ("other channels turn than the code says", "museum/rotations/#neighbors-are-the-pairs"),
    "base-ignored": ("the base that is asked for does not arrive", "museum/bugs-systems/#type-renamed"),
    "scaling-ignored": ("the factor of a scaling does not arrive", "museum/bugs-systems/#stretch-under-another-name"),
    "crossed": ("the cosine of a pair has a frequency of its own", "museum/bugs-formulas/#cosine-of-its-own"),
    "still": ("nothing turns", "museum/bugs-formulas/#quotient-of-integers"),
    # Positions
    "positions-ignored": ("positions do not arrive", "museum/bugs-caches/#every-call-from-zero"),
    "positions-shifted": ("positions are counted from elsewhere than 0", "museum/tables/#first-missing-row"),
    "offset-ignored": ("each call counts from 0", "museum/bugs-caches/#every-call-from-zero"),
    "positions-rounded": (
        "positions are counted in the model's type",
        "museum/bugs-caches/#counted-in-the-models-type",
    ),
    "angles-rounded": ("angles, or the table, are rounded", "museum/rotations/#steps-of-sixteen"),
    "buffers-rounded": ("buffers are rounded with their module", "museum/bugs-caches/#buffer-follows-its-module"),
    "clipped": ("positions beyond a limit are all alike", "museum/tables/#any-length"),
    "wrapped": ("positions beyond a limit start again", "museum/tables/#any-length"),
    "rows-mixed": ("a text gets the positions of another", "museum/bugs-caches/#one-count-for-the-batch"),
    "axis-lost": ("one axis of the grid is ignored", "museum/bugs-systems/#picture-read-as-line"),
    "axes-swapped": ("rows are taken for columns", "museum/bugs-systems/#swaps-cancel-on-squares"),
    "cache-stale": ("what is cached belongs to another call", "museum/bugs-caches/#remembered-by-length"),
    "length-dependent": (
        "frequencies change with the length",
        "museum/bugs-caches/#frequencies-change-under-the-keys",
    ),
    # Rotations
    "not-a-rotation": ("pairs are mixed or stretched, not turned", "museum/rotations/#one-term-twice"),
    "layout-mixed": ("pairs of one layout, angles of the other", "museum/rotations/#neighbors-are-the-pairs"),
    "padded-with-one": ("pairs at rest are stretched", "museum/bugs-formulas/#rest-that-stretches"),
    "one-side": ("only queries turn, or only keys", "museum/rotations/#values-are-turned-too"),
    "sides-differ": ("queries and keys turn differently", "museum/rotations/#matrix-and-formula-disagree"),
    "opposite": ("queries turn one way and keys the other", "museum/rotations/#matrix-and-formula-disagree"),
    "one-for-both": ("keys are made of queries, or queries of keys", "museum/rotations/#values-are-turned-too"),
    "swapped": ("keys come out first", "museum/rotations/#values-are-turned-too"),
    "factor-twice": ("YaRN's factor is applied twice", "museum/bugs-formulas/#yarn-factor-twice"),
    "heads-axis": ("the code turns along the heads", "museum/bugs-formulas/#stamped-along-the-batch"),
    "batch-axis": ("the code runs along the batch", "museum/bugs-formulas/#stamped-along-the-batch"),
    "absolute": ("it depends on places, not on offsets", "museum/bugs-formulas/#old-table-stays"),
    "in-place": ("the input is written to", "museum/bugs-systems/#phases-drawn-in-place"),
    "gradient-wrong": ("a gradient is not that of the result", "museum/bugs-systems/#phase-beyond-the-clamp"),
    "no-gradient": ("no gradient arrives", "museum/bugs-systems/#phase-beyond-the-clamp"),
    "against-config": ("other than the configuration says", "museum/bugs-systems/#stretch-under-another-name"),
    # Tables
    "rows-alike": ("positions share a row", "museum/sinusoids/#all-rows-differ"),
    "order-broken": ("sines and cosines do not stand beside each other", "museum/sinusoids/#sines-before-cosines"),
    "dropout-on": ("dropout does not rest", "museum/order/#heat-map-in-train-mode"),
    "scale-twice": ("the width scales where its root belongs", "museum/tables/#root-d-one-scale"),
    "not-linear-in-position": ("angles do not grow with the position", "museum/rotations/#steps-of-sixteen"),
    "embeddings-lost": ("the words, or the picture, do not come through", "museum/order/#residual-before-the-sum"),
    # Biases
    "sign-reversed": ("far keys win", "museum/biases/#query-minus-key"),
    "slopes-wrong": ("the slopes are not ALiBi's", "museum/bugs-formulas/#heads-counted-from-zero"),
    "decode-aligned-first": (
        "one query is aligned with the first keys",
        "museum/bugs-caches/#is-causal-counts-from-first",
    ),
    "bias-rounded": ("the bias is rounded until neighbors share a number", "museum/rotations/#steps-of-sixteen"),
    "mask-off-by-one": ("the mask hides one key too many or too few", "museum/order/#penalty-is-not-a-mask"),
    "one-direction-lost": ("keys ahead are taken for keys behind", "museum/tables/#t5-is-not-shaw"),
    "buckets-wrong": ("near offsets share a bucket, or far ones do not", "museum/tables/#t5-is-not-shaw"),
    "queries-mixed": ("a query's bias is made of another query", "museum/biases/#query-minus-key"),
    "scaled-wrong": ("the factor that a module keeps is not applied", "museum/biases/#t5-divides"),
    "transposed": ("queries and keys are exchanged", "museum/biases/#query-minus-key"),
    # Attentions
    "future-seen": ("a query sees keys ahead of it", "museum/order/#penalty-is-not-a-mask"),
    "self-hidden": ("a query does not see its own key", "museum/order/#penalty-is-not-a-mask"),
    "scale-missing": ("products are not divided by sqrt(d)", "museum/biases/#t5-divides"),
    "scale-wrong": ("products are divided by another number", "museum/biases/#t5-divides"),
    "weights-wrong": ("weights do not sum to 1 over the keys", "museum/order/#attends-to-itself"),
    "values-moved": ("values turn or move along with keys", "museum/rotations/#values-are-turned-too"),
    "turned-twice": ("keys or queries are turned twice", "museum/bugs-caches/#turned-once-more"),
    "mask-ignored": ("the mask changes nothing", "museum/bugs-caches/#left-pads-are-counted"),
    "mask-inverted": ("the mask hides what should be seen", "museum/bugs-caches/#left-pads-are-counted"),
    "padding-counted": ("positions count the padding", "museum/bugs-caches/#left-pads-are-counted"),
    "heads-mixed": ("heads are mixed with each other or with tokens", "museum/bugs-formulas/#stamped-along-the-batch"),
    "bias-lost": ("the bias is made and not added", "museum/bugs-formulas/#old-table-stays"),
    "groups-tiled": ("query heads share the wrong key heads", "museum/bugs-formulas/#twelve-heads-by-formula"),
    "penalty-reversed": ("far keys win", "museum/biases/#query-minus-key"),
    "precision-lost": ("half precision is rounded too early", "museum/rotations/#steps-of-sixteen"),
    "cache-wrong": ("decoding with the cache is not what prefill is", "museum/bugs-caches/#every-call-from-zero"),
    "kept-for-seen": ("tokens kept are taken for tokens seen", "museum/bugs-caches/#kept-for-seen"),
    "batch-mixed": ("a text depends on its neighbors in the batch", "museum/bugs-caches/#one-count-for-the-batch"),
}


def page_of(cause: str) -> str:
    """Return the address of the page that explains a cause, "" where there is none."""
    return f"{SITE}{CAUSES[cause][1]}" if cause in CAUSES else ""
