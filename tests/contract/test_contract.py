"""What every encoding promises, whatever its file says. A new file is tested here without being named.

How the inputs of each door are made, and what an encoding's own test file may add, is in encoding_inputs.py. What every
file of the package must look like is in test_files.py.
"""

import contextlib
import copy
import inspect
import itertools
import re
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

from dev.changed import changed
from tests.contract import encoding_inputs
from tests.contract.encoding_inputs import POSITIONS, B, Encoding, H

LENGTHS = (1, 7, 64, 512, 1000)
DTYPES = [torch.float16, torch.bfloat16, torch.float32, torch.float64]
COORDINATES = r"\b(grid_positions|axial_coordinates)\("
MESSAGE = re.compile(r"(?P<argument>[\w ]+) must (be|have) .+, got .+", re.S)
LOUD = (AttributeError, IndexError, OverflowError, RuntimeError, TypeError, ValueError, ZeroDivisionError)


def worth_compiling(encoding: Encoding) -> list:
    """Return the variants to compile, which takes a second each: the first, by night or after a change all of them."""
    first, *others = encoding.variants()
    files = {
        path.relative_to(encoding_inputs.ROOT).as_posix()
        for path in (encoding.path, encoding_inputs.own_tests_path(encoding.key))
    }
    marks = [] if files & changed() else [pytest.mark.slow]
    return [first, *(pytest.param(variant, marks=marks) for variant in others)]


over_encodings = pytest.mark.parametrize(
    "encoding", [v for e in encoding_inputs.encodings() for v in e.variants()], ids=str
)
over_compiled = pytest.mark.parametrize(
    "encoding", [v for e in encoding_inputs.encodings() for v in worth_compiling(e)], ids=str
)
over_position_kinds = pytest.mark.parametrize("kind", POSITIONS)
over_dtypes = pytest.mark.parametrize("dtype", DTYPES, ids=str)


def assert_equal(actual, expected, atol=0.0):
    torch.testing.assert_close(actual, expected, rtol=0, atol=atol, msg=without_torchs_words)


def assert_near(actual, expected):
    torch.testing.assert_close(actual, expected, msg=without_torchs_words)


def without_torchs_words(message: str) -> str:
    return re.sub(r"\w+(-likes)? are not (equal|close)!\s+", "two results that should be the same differ: ", message)


def assert_close(tensors, arrays, rtol=0.0, atol=0.0):
    """Compare what torch returned with what NumPy says, whole arrays."""
    for got, want in zip(tensors, arrays, strict=True):
        message = "the result is not what the NumPy function, or the oracle, says"
        np.testing.assert_allclose(got.double().numpy(), want, rtol=rtol, atol=atol, err_msg=message)


def far(encoding: Encoding) -> encoding_inputs.Arguments:
    """Return arguments at far positions, with content that float32 holds."""
    arguments = encoding.arguments(POSITIONS[encoding.furthest()])
    return {name: a if "positions" in name else a.astype(np.float32).astype(float) for name, a in arguments.items()}


ORACLES: dict[tuple, tuple] = {}


def exact(encoding: Encoding, module: nn.Module) -> tuple:
    """Return what must come out at far positions; an oracle in mpmath takes seconds, and is asked once."""
    oracle = encoding.declared("oracle", None)
    if oracle is None:
        return encoding.expected(far(encoding), module)
    if (oracle, str(encoding)) not in ORACLES:
        ORACLES[oracle, str(encoding)] = encoding.expected(far(encoding), module, oracle)
    return ORACLES[oracle, str(encoding)]


# The same function, in torch and in NumPy


@over_encodings
@over_position_kinds
def test_torch_equals_numpy(encoding: Encoding, kind):
    """Class and NumPy function compute one formula: correct the one that errs. Positions are (t,) or a batch (b, t)."""
    if kind in encoding.declared("REFUSED", ()):
        pytest.skip("refused, see test_refused_positions_are_refused")
    module, arguments = encoding.build().double(), encoding.arguments(POSITIONS[kind])
    actual = encoding.comparable(encoding.results(module, encoding.tensors(arguments)))
    coarse = 4e-15 * np.abs(POSITIONS[kind]).max()  # an angle of 10^7 radians has no more digits in float64
    rounded = 4 * torch.finfo(actual[0].dtype).eps  # a bias may be of float32
    assert_close(actual, encoding.expected(arguments, module), rtol=1e-12 + rounded, atol=1e-12 + coarse)


@over_encodings
def test_a_float32_result_is_exact_at_far_positions(encoding: Encoding):
    """Compute from positions in float64, `positions.double()`, and cast the result once: float32 has too few digits.

    Positions that the formula cannot take are refused; name them in REFUSED of its test file.
    """
    module = encoding.build()
    actual = encoding.comparable(encoding.results(module, encoding.tensors(far(encoding), torch.float32)))
    assert_close(actual, exact(encoding, module), rtol=1e-6, atol=1e-6)


@over_encodings
def test_the_numpy_function_is_exact_at_far_positions(encoding: Encoding):
    """Start the NumPy function with np.asarray(positions, np.float64); compare it with the oracle of its test file."""
    module = encoding.build()
    for got, want in zip(encoding.expected(far(encoding), module), exact(encoding, module), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-8, atol=1e-8)


@over_encodings
def test_the_numpy_function_computes_in_float64(encoding: Encoding):
    """Start the NumPy function with np.asarray(…, np.float64) of all that comes in: it states the formula, exactly."""
    arguments = encoding.arguments(POSITIONS["start"])
    arguments = {name: array.astype(np.float32) for name, array in arguments.items()}
    for result in encoding.expected(arguments, encoding.build()):
        assert result.dtype == np.float64, f"{encoding.name}(…) gives {result.dtype} for content in float32"


@over_encodings
def test_refused_positions_are_refused(encoding: Encoding):
    """REFUSED of its test file names the positions that class and NumPy function refuse; infinities are no result."""
    for kind in encoding.declared("REFUSED", ()):
        arguments = encoding.arguments(POSITIONS[kind])
        got = f"{kind} positions such as {arguments['positions'].flat[-1]}"
        with refusal(encoding, "key_positions", got=got):  # or positions
            results = encoding.results(encoding.build(), encoding.tensors(arguments))
            if not all(result.isfinite().all() for result in results):
                raise OverflowError
        with refusal(encoding, "key_positions", got=got):
            encoding.expected(arguments, encoding.build())


@over_encodings
def test_tokens_that_attend_to_themselves_stand_at_0_to_t_by_default(encoding: Encoding):
    """As many keys as queries, more than one, stand at torch.arange(t) unless told; nothing else has a default."""
    if not encoding.takes_text:
        pytest.skip("refused, see test_text_is_refused_where_a_token_needs_coordinates")
    module, tensors = encoding.build(), encoding.plain(6, with_positions=True)
    omitted = {name: value for name, value in tensors.items() if "positions" not in name}
    if encoding.door == "bias":
        omitted["positions"] = tensors["positions"]
    same = (
        assert_near if encoding.declared("NEIGHBORS", False) else assert_equal
    )  # in order, torch has a kernel for them
    same(encoding.results(module, omitted), encoding.results(module, tensors))


@over_encodings
def test_as_many_keys_stand_where_queries_are_said_to(encoding: Encoding):
    """Where `positions` alone are given, and there are as many keys as queries, the keys stand there too."""
    module, tensors = encoding.build(), encoding.plain(6, with_positions=True)
    tensors |= {name: value + 3 for name, value in tensors.items() if "positions" in name}
    alone = {name: value for name, value in tensors.items() if name != "key_positions"}
    assert_equal(encoding.results(module, alone), encoding.results(module, tensors))
    if hasattr(module, "score_mod"):
        mods, zero = [module.score_mod(**call) for call in (alone, tensors)], torch.zeros((), dtype=torch.long)
        assert_equal(*(modify(torch.zeros(()), zero, zero, zero + 4, zero + 1) for modify in mods))


@over_encodings
def test_tokens_without_a_default_place_are_refused(encoding: Encoding):
    """Refuse in one sentence what has no default: a lone token, other keys than queries, keys alone.

    A lone token is a new one behind a cache and does not stand at 0; `attention` knows where it does.
    """
    module, tensors = encoding.build(), encoding.plain(6, with_positions=True)
    lone = {name: value[:1] if "positions" in name else value[..., :1, :] for name, value in tensors.items()}
    calls = {"a lone token": lone}
    if "k" in encoding.call:
        fewer = {name: value[..., :3, :] if name == "k" else value for name, value in tensors.items()}
        calls |= {"6 queries of 3 keys": fewer, "a query of 6 keys": tensors | {"q": tensors["q"][..., :1, :]}}
    for got, call in calls.items():
        without = {name: value for name, value in call.items() if "positions" not in name or encoding.door == "bias"}
        without.pop("key_positions", None)
        with refusal(encoding, "key_positions", got=f"a default place for {got}", own=True):  # or positions
            module(**without)
    if "k" in encoding.call:
        with refusal(encoding, "positions", got="a default place for queries whose keys are placed", own=True):
            module(**{name: value for name, value in tensors.items() if name != "positions"})
        with refusal(encoding, "key_positions", got="a default place for keys of other count than queries"):
            module(**{name: value for name, value in calls["a query of 6 keys"].items() if name != "key_positions"})
    module(**lone)


@over_encodings
def test_text_is_refused_where_a_token_needs_coordinates(encoding: Encoding):
    """Refuse positions (t,) and None, and name what makes coordinates, such as grid_positions(…).

    Else patch i of an image would stand at (i, i), and nothing would say so.
    """
    if encoding.takes_text:
        pytest.skip("it takes text")
    module, arguments = encoding.build(), encoding.arguments(np.arange(6), np.arange(6))
    tensors = encoding.tensors(arguments)
    for name in [name for name in tensors if "positions" in name]:
        wrong = [{name: torch.arange(6)}] + [{name: None}] * (encoding.door != "bias" and name == "positions")
        for call in (module, getattr(module, "score_mod", module)):
            for text in wrong:
                with refusal(encoding, name, got="positions (t,)") as caught:
                    call(**tensors | text)
                assert re.search(COORDINATES, str(caught[0])), f"{caught[0]!r} does not say what makes coordinates"
        if encoding.declared("AXES", 0) > 1:  # for one axis a line of numbers can mean nothing else
            with refusal(encoding, name, got="positions (t,)"):
                encoding.expected(arguments | {name: np.arange(6)}, module)


@over_encodings
def test_one_query_after_a_cache_of_keys_equals_the_last_query_of_all(encoding: Encoding):
    """Place a query by its position, never by its row: alone, after a cache of keys, it is what it was among all."""
    if encoding.declared("NEIGHBORS", False):
        pytest.skip("a token alone has no neighbors")
    module, keys = encoding.build(), np.arange(7)
    whole = encoding.tensors(encoding.arguments(keys, keys))
    last = {name: v[..., -1:, :] if name in ("x", "q") else v for name, v in whole.items()}
    last["positions"] = whole["positions"][-1:]
    whole_result, alone = encoding.results(module, whole)[0], encoding.results(module, last)[0]
    assert_near(alone, whole_result[..., -1:, :])


@over_encodings
def test_any_dtype_of_positions_gives_the_same(encoding: Encoding):
    """Convert positions to float64 before any arithmetic: unsigned integers wrap around where a key lies ahead.

    Where fractions mean nothing, refuse them and name them in REFUSED of its test file.
    """
    module, tensors = encoding.build(), encoding.tensors(encoding.arguments(POSITIONS["unsorted"]))
    expected = encoding.results(module, tensors)
    for dtype in (torch.int32, torch.uint8, torch.float32, torch.float64):
        if not dtype.is_floating_point or "fractional" not in encoding.declared("REFUSED", ()):
            other = {name: v.to(dtype) if "positions" in name else v for name, v in tensors.items()}
            assert_equal(encoding.results(module, other), expected)


@over_encodings
def test_one_row_of_positions_serves_a_batch(encoding: Encoding):
    """Take (t,), (1, t) and (b, t) for either: positions[..., :, None] - key_positions[..., None, :]."""
    module, rng = encoding.build(), np.random.default_rng(0)
    row, rows = np.array([3, 0, 70, 7, 7, 1]), rng.integers(0, 99, (B, 6))
    shared = encoding.tensors(encoding.arguments(row, row[::-1].copy()))
    own = encoding.tensors(encoding.arguments(rows, rows[:, ::-1].copy()))
    names = [name for name in encoding.call if "positions" in name]

    def results(positions):
        return encoding.results(module, shared | dict(zip(names, positions, strict=True)))

    kinds = [tuple(inputs[name] for inputs in (shared, own)) for name in names]
    for which in itertools.product((0, 1), repeat=len(names)):
        mixed = [kind[batched] for kind, batched in zip(kinds, which, strict=True)]
        full = [p if batched else p.expand(B, *p.shape) for p, batched in zip(mixed, which, strict=True)]
        with_batch_axis = [p if batched else p[None] for p, batched in zip(mixed, which, strict=True)]
        expected = results(full)
        for inputs in (with_batch_axis, mixed):  # (1, t) or (t,) beside (b, s)
            actual = results(inputs)
            for part, whole in zip(actual, expected, strict=True):
                assert_near(part.expand_as(whole), whole)


# A table made once, and the bias of FlexAttention


@over_encodings
def test_a_table_made_once_gives_the_same(encoding: Encoding):
    """`table(positions)` holds all that a call needs of positions; `turn(x, table)` gives what the call gives.

    Where queries turn otherwise than keys, there are `turn_q` and `turn_k`. A table to add is what is added.
    """
    module = encoding.build()
    if not hasattr(module, "table"):
        pytest.skip("it has nothing to share")
    arguments = encoding.tensors(encoding.arguments(np.arange(2, 8), np.arange(2, 8)), torch.float32)
    expected, table = encoding.results(module, arguments), module.table(arguments["positions"])
    if encoding.door == "add":
        assert_equal(
            encoding.results(module, arguments | {"x": torch.zeros_like(arguments["x"])})[0],
            table.float().expand(B, -1, -1),
        )
        return
    turn_q, turn_k = (getattr(module, name, None) or module.turn for name in ("turn_q", "turn_k"))
    assert_equal((turn_q(arguments["q"], table), turn_k(arguments["k"], table)), expected)
    with refusal(encoding, "table", got="a table of other rows than tokens"):
        turn_k(arguments["k"], module.table(torch.cat([arguments["positions"]] * 2)))
    with refusal(encoding, "table", got="a table of one row for all tokens"):
        turn_q(arguments["q"], module.table(arguments["positions"][:1]))


@over_encodings
@over_position_kinds
def test_a_score_mod_equals_the_dense_scores(encoding: Encoding, kind):
    """`score_mod` takes what forward takes, and returns modify(score, b, h, q_idx, kv_idx): the same for one pair."""
    module, arguments = encoding.build(), encoding.arguments(POSITIONS[kind])
    if not hasattr(module, "score_mod"):
        assert encoding.door != "bias", f"{type(module).__name__} has no score_mod; every bias has one"
        pytest.skip("its score of a pair needs the pairs between them")
    if kind in encoding.declared("REFUSED", ()):
        pytest.skip("refused")
    tensors = encoding.tensors(arguments, torch.float32)
    (dense,) = encoding.results(module, tensors)
    logits = torch.zeros(())
    if encoding.door == "score":
        q, k = tensors["q"], tensors["k"]
        logits = q @ k.repeat_interleave(H // k.shape[1], dim=1).mT / q.shape[-1] ** 0.5
    logits = logits.expand(B, H, *dense.shape[-2:])
    modify = module.score_mod(**tensors)
    for axis in (4, 3, 2, 1):  # one key, then one query, head and sequence: as FlexAttention calls it
        modify = torch.func.vmap(modify, in_dims=(0, *(0 if place == axis else None for place in range(1, 5))))
    actual = modify(logits, *(torch.arange(size) for size in logits.shape))
    assert_equal(actual.float(), (logits + dense).float(), atol=2e-6 * (1 + dense.abs().max().item()))


# What comes out


@over_encodings
@over_dtypes
def test_the_result_has_the_dtype_of_the_input(encoding: Encoding, dtype):
    """Cast the result to the dtype of the content, `.to(x)`; a bias, which sees no content, gives floats."""
    tensors = encoding.tensors(encoding.arguments(POSITIONS["start"]), dtype)
    for result in encoding.results(encoding.build(), tensors):
        assert result.is_floating_point(), f"the result is of {result.dtype}"
        assert result.dtype == dtype or encoding.door == "bias", f"{dtype} came in, {result.dtype} comes out"


@over_encodings
@pytest.mark.parametrize("dtype", DTYPES[:3], ids=str)
def test_a_result_is_rounded_once_however_far_the_positions(encoding: Encoding, dtype):
    """Compute in float64 or float32 and cast at the end, once: what is cast to 16 bits before that is lost."""
    if encoding.door == "bias":
        pytest.skip("a bias has no input to take a dtype from")
    module, arguments = encoding.build(), far(encoding)
    tensors = encoding.tensors(arguments, dtype)
    inputs = {name: a if "positions" in name else tensors[name].double().numpy() for name, a in arguments.items()}
    rounded = encoding.comparable(encoding.results(module, tensors))
    expected = encoding.expected(inputs, module)
    largest = max(np.abs(result).max() for result in expected)
    assert_close(rounded, expected, atol=4 * torch.finfo(dtype).eps * largest)


@over_encodings
def test_inputs_are_not_changed(encoding: Encoding):
    """Change no argument in place (add_, mul_, x[…] = …): make a new tensor."""
    tensors = encoding.plain(6, with_positions=True)
    before = copy.deepcopy(tensors)
    encoding.build().train()(**tensors)
    assert_equal(tensors, before)
    written = [name for name, value in tensors.items() if value._version]
    assert not written, f"{' and '.join(written)} written to, even if written back"


@over_encodings
def test_writing_to_a_result_leaves_the_inputs_alone(encoding: Encoding):
    """Return a new tensor, no view of an argument; where nothing changes, a clone."""
    tensors = encoding.plain(6, with_positions=True)
    before = copy.deepcopy(tensors)
    for result in encoding.results(encoding.build(), tensors):
        result.detach().zero_()
    assert_equal(tensors, before)


@over_encodings
def test_strides_do_not_matter(encoding: Encoding):
    """Take queries of (b, t, h, d) with two axes swapped as they lie: reshape instead of view."""
    module, tensors = encoding.build(), encoding.plain(6, with_positions=True)
    strided = {
        name: x.transpose(1, -2).contiguous().transpose(1, -2) if x.ndim > 2 else x for name, x in tensors.items()
    }
    assert_equal(encoding.results(module, strided), encoding.results(module, tensors))


@over_encodings
def test_integer_content_is_refused_or_gives_floats(encoding: Encoding):
    """Refuse integers in the content, or give floats: a result cast back to integers is truncated."""
    if encoding.door == "bias":
        pytest.skip("a bias has no content")
    module, tensors = encoding.build(), encoding.plain(6, with_positions=True)
    whole = {name: value if "positions" in name else (3 * value).long() for name, value in tensors.items()}
    same = {name: value if "positions" in name else value.double() for name, value in whole.items()}
    try:
        results = encoding.results(module, whole)
    except LOUD:
        return
    for got, want in zip(results, encoding.results(module, same), strict=True):
        assert_equal(got.double(), want, atol=1e-6)


@over_encodings
def test_integer_content_does_not_truncate_in_numpy(encoding: Encoding):
    """Start the NumPy function with np.asarray(x, np.float64): a result in the dtype of integers is truncated."""
    arguments = encoding.arguments(POSITIONS["start"])
    whole = {name: a if "positions" in name else np.rint(3 * a).astype(int) for name, a in arguments.items()}
    same = {name: a.astype(float) for name, a in whole.items()}
    module = encoding.build()
    for got, want in zip(encoding.expected(whole, module), encoding.expected(same, module), strict=True):
        np.testing.assert_array_equal(got, want, "integers give something else than the same numbers as floats")


# Nothing can coarsen it


@contextlib.contextmanager
def default_dtype(dtype: torch.dtype) -> Iterator[None]:
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        yield
    finally:
        torch.set_default_dtype(before)


def assert_as_without_the_cast(encoding: Encoding, module: nn.Module, results, dtype: torch.dtype):
    """Compare with a module in float32 that has the parameters of `module`, rounded as they are."""
    reference = encoding.build()
    reference.load_state_dict({name: value.float() for name, value in module.state_dict().items()})
    expected = encoding.results(reference, encoding.tensors(far(encoding), torch.float32))
    coarsest = max(torch.finfo(dtype).eps, torch.finfo(torch.float32).eps) if list(module.parameters()) else 0.0
    for got, want in zip(results, expected, strict=True):
        tolerance = 4 * coarsest * want.nan_to_num(0.0, 0.0, 0.0).abs().max().item()
        assert got.dtype == want.dtype or encoding.door == "bias", f"{want.dtype} came in, {got.dtype} comes out"
        assert_equal(got.float(), want.float(), atol=tolerance)


@over_encodings
@over_dtypes
def test_casting_the_module_changes_nothing(encoding: Encoding, dtype):
    """`module.to(bfloat16)` may round parameters and nothing else: keep no other tensor, and compute in float64."""
    module = encoding.build().to(dtype)
    results = encoding.results(module, encoding.tensors(far(encoding), torch.float32))
    assert_as_without_the_cast(encoding, module, results, dtype)


@over_encodings
@over_dtypes
def test_the_default_dtype_changes_nothing(encoding: Encoding, dtype):
    """Give torch.arange, zeros, ones, full and 2.0 ** torch.arange(…) a dtype: else the default dtype coarsens them."""
    tensors = encoding.tensors(far(encoding), torch.float32)
    with default_dtype(dtype):
        module = encoding.build()
        results = encoding.results(module, tensors)
    assert_as_without_the_cast(encoding, module, results, dtype)


@over_encodings
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
def test_autocast_changes_nothing_but_products_of_content(encoding: Encoding, dtype):
    """Autocast rounds matrix products: compute angles and biases by elementwise ones, in float64."""
    module, tensors = encoding.build(), encoding.tensors(far(encoding), torch.float32)
    with torch.autocast("cpu", dtype=dtype):
        results = encoding.results(module, tensors)
    for got, want in zip(results, encoding.results(module, tensors), strict=True):
        products = 4 * torch.finfo(dtype).eps * want.abs().max().item() if multiplies(encoding) else 0.0
        assert_equal(got.float(), want, atol=products)


def multiplies(encoding: Encoding) -> bool:
    """Tell whether the content is multiplied by matrices, which autocast rounds."""
    return encoding.door == "score" or encoding.declared("NEIGHBORS", False)


# Nothing is stored


@over_encodings
def test_only_what_is_learned_is_stored(encoding: Encoding):
    """Name the parameters in its test file, LEARNED = {"weight"}; no buffers: forward computes what is not learned."""
    module = encoding.build()
    buffers, parameters = (sorted(dict(entries)) for entries in (module.named_buffers(), module.named_parameters()))
    learned = sorted(encoding.declared("LEARNED", ()))
    assert not buffers, f"{type(module).__name__} registers the buffers {buffers}"
    assert parameters == learned, f"{type(module).__name__} has the parameters {parameters}, LEARNED names {learned}"
    assert sorted(module.state_dict()) == learned, (
        f"a checkpoint holds {sorted(module.state_dict())}, LEARNED names {learned}"
    )


@over_encodings
def test_every_parameter_is_an_argument_of_the_numpy_function(encoding: Encoding):
    """The NumPy function takes every learned parameter as an array, under the name that it has in the class."""
    wanted = inspect.signature(encoding.function).parameters
    missing = [name for name, _ in encoding.build().named_parameters() if name not in wanted]
    assert not missing, f"{encoding.name}(…) does not take {' and '.join(missing)}"


@over_encodings
def test_no_tensor_hides_in_an_attribute(encoding: Encoding):
    """Keep numbers in attributes and compute tensors in forward: `.to(device)` would not move what is hidden there."""
    module = encoding.build()
    encoding.results(module, encoding.plain(6))
    for part in module.modules():
        for name, value in vars(part).items():
            assert name == "_parameters" or not list(tensors_in(value)), f"self.{name} holds a tensor"


def tensors_in(value) -> Iterator[object]:
    if isinstance(value, torch.Tensor | np.ndarray):
        yield value
    elif isinstance(value, dict):
        yield from tensors_in(list(value.values()))
    elif isinstance(value, list | tuple | set):
        for item in value:
            yield from tensors_in(item)


@over_encodings
def test_a_call_leaves_no_trace(encoding: Encoding):
    """Assign nothing to self, to the class or to the file in a call: what a call leaves, the next one meets."""
    module = encoding.build()
    before = [repr(vars(module)), repr(vars(type(module))), state_of(encoding.module)]
    for length in (3, 9):
        encoding.results(module, encoding.plain(length))
        encoding.expected(encoding.arguments(np.arange(length)), module)
    owners = ("the module", "its class", f"the file {encoding.path.name}")
    after = [repr(vars(module)), repr(vars(type(module))), state_of(encoding.module)]
    changed = [owner for owner, then, now in zip(owners, before, after, strict=True) if then != now]
    assert not changed, f"a call changes {' and '.join(changed)}"


def state_of(module) -> dict[str, str]:
    return {name: repr(value) for name, value in vars(module).items() if not name.startswith("__")}


@over_encodings
def test_nothing_is_cached(encoding: Encoding):
    """No functools.cache: what costs is computed once by the caller, `table(positions)`, and handed to each layer."""
    owners = [encoding.module, *encoding.classes]
    cached = [name for owner in owners for name, value in vars(owner).items() if hasattr(value, "cache_clear")]
    assert not cached, f"{' and '.join(cached)} caches"


@over_encodings
def test_a_call_does_not_depend_on_the_calls_before(encoding: Encoding):
    """Equal arguments give equal results, whatever came before: assign nothing in a call."""
    used = encoding.build()
    for length, dtype in [(6, torch.float32), (9, torch.bfloat16), (3, torch.float64), (6, torch.float64)]:
        tensors = encoding.plain(length, dtype)
        assert_equal(encoding.results(used, tensors), encoding.results(encoding.build(), tensors))
    tensors = encoding.tensors(encoding.arguments(POSITIONS["unsorted"]))
    assert_equal(encoding.results(used, tensors), encoding.results(encoding.build(), tensors))


@over_encodings
def test_two_bases_share_nothing(encoding: Encoding):
    """Compute with the base of this module, self.base, wherever the base enters."""
    if "base" not in inspect.signature(encoding.classes[0]).parameters or "base" in encoding.options:
        pytest.skip("it has no base, or the variant fixes it")
    tensors, arguments = encoding.plain(6, with_positions=True), encoding.arguments(np.arange(6), np.arange(6))
    modules = {base: encoding.build(base=base) for base in (100.0, 50_000.0)}
    for base in (100.0, 50_000.0, 100.0):
        actual = encoding.comparable(encoding.results(modules[base], tensors))
        based = replace(encoding, options=encoding.options | {"base": base})
        assert_close(actual, based.expected(arguments, modules[base]), atol=1e-12)


# It works wherever torch does


def compiled_and_its_graphs(module, **options):
    graphs = []

    def backend(graph, _):
        graphs.append(graph)
        return graph.forward

    torch._dynamo.reset()
    return torch.compile(module, fullgraph=True, backend=backend, **options), graphs


def kinds_of_positions(encoding: Encoding) -> list[bool]:
    """Tell for each way to call whether positions are given: a bias, or what needs coordinates, always has them."""
    return [False, True] if "positions" not in encoding.plain(1) else [True]


@over_compiled
def test_compiles_at_most_twice_over_all_lengths(encoding: Encoding):
    """One graph serves all lengths: no .item(), no branch on a value, no NumPy, and no loop over tokens in forward."""
    module = encoding.build()
    for with_positions in kinds_of_positions(encoding):
        compiled, graphs = compiled_and_its_graphs(module)
        for length in LENGTHS:
            if length > 1 or with_positions:  # a lone token has no default
                tensors = encoding.plain(length, torch.float32, with_positions)
                assert_equal(compiled(**tensors), module(**tensors))
        assert len(graphs) <= 2, (
            f"compiled {len(graphs)} times, positions {'given' if with_positions else 'by default'}"
        )


@pytest.mark.full
@over_compiled
def test_compiles_at_most_twice_over_all_sizes(encoding: Encoding):
    """One graph serves all batches and heads: no loop over them and no Python number made from them in forward."""
    module = encoding.build()
    heads_of_its_own = "heads" in inspect.signature(encoding.classes[0]).parameters
    for with_positions in kinds_of_positions(encoding):
        compiled, graphs = compiled_and_its_graphs(module, dynamic=True)
        for batch, more, length in ((5, 1, 11), (19, 2, 13), (23, 3, 64)):  # no two sizes alike: torch would tie them
            tensors = encoding.plain(length, torch.float32, with_positions)
            for name in set(tensors) & {"x", "q", "k"}:
                rows = tensors[name][:1].repeat_interleave(batch, dim=0)
                apart = name == "x" or heads_of_its_own
                tensors[name] = rows if apart else rows.repeat_interleave(more, dim=1)
            assert_equal(compiled(**tensors), module(**tensors))
        assert len(graphs) <= 2, (
            f"compiled {len(graphs)} times, positions {'given' if with_positions else 'by default'}"
        )


@pytest.mark.full
@over_compiled
def test_compiles_where_sizes_are_alike(encoding: Encoding):
    """Compare shapes one by one, shape != (t,) and shape != (b, t): `in` fails in a graph where two sizes agree."""
    module = encoding.build()
    compiled, _ = compiled_and_its_graphs(module, dynamic=True)
    for length in (encoding.width, B, H):
        tensors = encoding.plain(length, torch.float32, with_positions=True)
        assert_equal(compiled(**tensors), module(**tensors))


@over_compiled
def test_one_exported_program_serves_every_length(encoding: Encoding):
    """Take lengths from shapes, `x.shape[-2]`, and make no Python number of them: torch.export holds each for good."""
    module, example = encoding.build(), encoding.plain(6, torch.float32)
    length = torch.export.Dim("length", min=2, max=4096)
    axes = {name: {value.ndim - encoding.axes_after_length(name): length} for name, value in example.items()}
    program = torch.export.export(module, args=(), kwargs=example, dynamic_shapes=axes)
    longer = encoding.plain(11, torch.float32)
    assert_equal(program.module()(**longer), module(**longer))


@over_encodings
def test_vmap_over_content_and_positions_equals_a_loop(encoding: Encoding):
    """Plain tensor operations alone, counted from the last axis: no .item() and no branch on a value in forward."""
    module, kinds = encoding.build(), [np.arange(6), np.array([5, 0, 2, 70, 1, 1])]
    calls = [encoding.tensors(encoding.arguments(positions, positions[::-1].copy())) for positions in kinds]
    stacked = tuple(torch.stack([call[name] for call in calls]) for name in encoding.call)
    actual = torch.func.vmap(module)(*stacked)
    looped = [encoding.results(module, call) for call in calls]
    expected = tuple(torch.stack(results) for results in zip(*looped, strict=True))
    assert_near(actual if isinstance(actual, tuple) else (actual,), expected)


@over_encodings
def test_on_the_meta_device_only_shapes_are_computed(encoding: Encoding):
    """Make tensors on the device of the input, device=positions.device, and read no value (.item, .tolist)."""
    tensors = encoding.tensors(encoding.arguments(POSITIONS["batched"]), torch.bfloat16)
    real = encoding.results(encoding.build(), tensors)
    meta = encoding.results(encoding.build().to("meta"), {name: value.to("meta") for name, value in tensors.items()})
    for there, here in zip(meta, real, strict=True):
        assert there.device.type == "meta", f"the result lies on {there.device}, the inputs on meta"
        actual, expected = ((tuple(result.shape), result.dtype) for result in (there, here))
        assert actual == expected, f"on meta the result is {actual}, on the CPU {expected}"


@over_encodings
def test_a_module_built_on_the_meta_device_lacks_nothing_but_its_parameters(encoding: Encoding):
    """Keep parameters and Python numbers in the module: a tensor made by __init__ has no values on the meta device."""
    reference = encoding.build()
    with torch.device("meta"):
        module = encoding.build()
    module.to_empty(device="cpu")
    module.load_state_dict(reference.state_dict())
    tensors = encoding.plain(6)
    assert_equal(encoding.results(module, tensors), encoding.results(reference, tensors))


@over_encodings
@pytest.mark.parametrize("with_positions", [False, True], ids=["default positions", "given positions"])
def test_a_result_lies_on_the_device_of_the_inputs(encoding: Encoding, with_positions):
    """Give torch.arange, zeros and their like the device of the input: device=positions.device."""
    module, tensors = encoding.build(), encoding.plain(6, with_positions=with_positions)
    expected = encoding.results(module, tensors)
    with torch.device("meta"):  # the default device, which must not matter
        results = encoding.results(module, tensors)
    assert_equal(results, expected)


@over_encodings
def test_nothing_is_recorded_under_no_grad(encoding: Encoding):
    """Leave gradients to the caller: no requires_grad_() and no enable_grad() in forward."""
    tensors = {n: v.requires_grad_(v.is_floating_point()) for n, v in encoding.plain(6).items()}
    with torch.no_grad():
        results = encoding.results(encoding.build(), tensors)
    assert not any(result.requires_grad for result in results), "the result asks for a gradient under no_grad"


@over_encodings
def test_works_in_inference_mode(encoding: Encoding):
    """Change nothing in place and keep no tensor between calls."""
    module, tensors = encoding.build(), encoding.plain(6)
    with torch.inference_mode():
        results = encoding.results(module, tensors)
    assert_equal([result.clone() for result in results], list(encoding.results(module, tensors)))


@over_encodings
def test_gradients_flow_to_the_content(encoding: Encoding):
    """Let gradients pass to q, k and x: no detach(), no rounding, no .item() on their way."""
    content = {n: v.requires_grad_() for n, v in encoding.plain(3, with_positions=True).items() if "positions" not in n}
    rest = {n: v for n, v in encoding.plain(3, with_positions=True).items() if "positions" in n}
    if not content:
        pytest.skip("a bias has no content")
    module = encoding.build()
    assert torch.autograd.gradcheck(
        lambda *values: module(**dict(zip(content, values, strict=True)), **rest),
        tuple(content.values()),
        atol=1e-8,
        rtol=1e-4,
        fast_mode=True,
    )


@over_encodings
def test_gradients_flow_to_every_parameter(encoding: Encoding):
    """Every parameter has a share in the result: take out what has none, and detach nothing."""
    module = encoding.build()
    results = encoding.results(module, encoding.tensors(encoding.arguments(POSITIONS["batched"]), torch.float32))
    for name, parameter in module.named_parameters():
        weighted = sum((result * torch.rand_like(result)).sum() for result in results)
        (gradient,) = torch.autograd.grad(weighted, parameter, retain_graph=True)
        assert gradient.isfinite().all(), f"the gradient of {name} is not finite"
        assert gradient.count_nonzero(), f"the gradient of {name} is zero"


@over_encodings
def test_gradients_are_finite_where_a_key_stands_at_the_query(encoding: Encoding):
    """At distance 0 a logarithm, a root or a power below 1 has an infinite slope: keep it away by torch.where.

    Positions may be learned, so gradients reach them too; where they must be whole, content and parameters are tried.
    """
    module, tensors = encoding.build(), encoding.tensors(encoding.arguments(POSITIONS["unsorted"]))
    refused = encoding.declared("REFUSED", ())
    if "fractional" not in refused:
        tensors = {name: value.double() for name, value in tensors.items()}
    leaves = {name: value.requires_grad_() for name, value in tensors.items() if value.is_floating_point()}
    leaves |= dict(module.named_parameters())
    results = encoding.results(module, tensors)
    if not any(result.requires_grad for result in results):
        pytest.skip("nothing has a gradient")
    weighted = sum((result * torch.rand_like(result)).sum() for result in results)
    try:
        gradients = torch.autograd.grad(weighted, [*leaves.values()], allow_unused=True)
    except RuntimeError:  # what counts whole tokens has no gradient, and torch says so
        return
    for name, gradient in zip(leaves, gradients, strict=True):
        finite = gradient is None or gradient.isfinite().all()
        assert finite, f"the gradient of {name} is not finite where a key stands at the query"


# What would give a wrong result without an error

WRONG_SETTINGS = {
    "dim": [0, -2, 1.5],
    "heads": [0, -1],
    "base": [0, -1.0, float("nan"), float("inf")],
    "dropout": [-0.1, 1.5],
}
WRONG_WORDS = ["no such word", "", ["no", "word"], None]


@over_encodings
def test_wrong_settings_give_no_result(encoding: Encoding):
    """Refuse what torch lets pass: an odd width that loses a channel, a base that makes every angle NaN, a word."""
    for argument, value, own in wrong_settings(encoding.classes[0]):
        with refusal(encoding, argument, got=f"{argument}={value!r}", own=own):
            encoding.results(encoding.build(**{argument: value}), encoding.plain(6, with_positions=True))


@over_encodings
def test_wrong_settings_give_no_result_of_the_numpy_function(encoding: Encoding):
    """The NumPy function refuses what the class refuses: let both call one private function."""
    module, arguments = encoding.build(), encoding.arguments(np.arange(6), np.arange(6))
    for argument, value, own in wrong_settings(encoding.function):
        wrong = replace(encoding, options=encoding.options | {argument: value})
        with refusal(encoding, argument, got=f"{argument}={value!r}", own=own):
            wrong.expected(arguments, module)


def wrong_settings(function) -> Iterator[tuple[str, object, bool]]:
    """Yield bad values for the settings that `function` takes, and whether the refusal must be the encoding's own.

    It must where the value is one of a few, such as words: a KeyError of their table tells a user nothing.
    """
    for name, parameter in inspect.signature(function).parameters.items():
        is_word = isinstance(parameter.default, str)
        for value in WRONG_WORDS if is_word else WRONG_SETTINGS.get(name, []):
            yield name, value, is_word


@over_encodings
def test_a_width_is_refused_by_name_or_gives_all_its_channels(encoding: Encoding):
    """Refuse a width whose channels do not make whole pairs, axes or groups; what refuses 1 refuses 0 and less too."""
    if "dim" not in inspect.signature(encoding.classes[0]).parameters:
        pytest.skip("it has no width")
    refused = [dim for dim in (1, 3) if is_refused(replace(encoding, options=encoding.options | {"dim": dim}))]
    for dim in (0, -2) if 1 in refused else ():
        with refusal(encoding, "dim", got=f"dim={dim}", own=True):
            encoding.build(dim=dim)
    for dim in (*refused, 0) if refused and not encoding.declared("LEARNED", ()) else ():
        narrow = replace(encoding, options=encoding.options | {"dim": dim})
        with refusal(encoding, "dim", got=f"dim={dim} of the NumPy function", own=True):
            narrow.expected(narrow.arguments(np.arange(6), np.arange(6)))


def is_refused(encoding: Encoding) -> bool:
    """Tell whether the class refuses its width; if not, what it gives for content of that width must be right."""
    dim, arguments = encoding.options["dim"], encoding.arguments(np.arange(6), np.arange(6))
    try:
        module = encoding.build()
        results = encoding.results(module, encoding.tensors(arguments))
    except LOUD as error:
        with refusal(encoding, "dim", got=f"dim={dim}", own=True):
            raise error from None
        return True
    assert_close(encoding.comparable(results), encoding.expected(arguments, module), rtol=1e-6, atol=1e-6)
    if encoding.door in ("add", "rotate"):
        widths = [result.shape[-1] for result in results]
        assert not any(width % dim for width in widths), f"dim={dim} gives {widths} channels; refuse it"
    return False


WRONG_SHAPES = {
    "one token narrower": ("x", "q", "k"),
    "one position for all": ("positions", "key_positions"),
    "one position too many": ("positions", "key_positions"),
    "another batch": ("positions", "key_positions"),
    "a scalar": ("positions", "key_positions"),
}


def wrongly_shaped(tensor: torch.Tensor, how: str) -> torch.Tensor:
    return {
        "one token narrower": lambda: tensor[..., 1:],
        "one position for all": lambda: tensor[:1],
        "one position too many": lambda: torch.cat([tensor, tensor[:1]]),
        "another batch": lambda: tensor.expand(B + 1, *tensor.shape),
        "a scalar": lambda: tensor.flatten()[0],
    }[how]()


@over_encodings
@pytest.mark.parametrize("how", WRONG_SHAPES)
def test_wrong_shapes_give_no_result(encoding: Encoding, how):
    """Refuse with the numbers of the call what would broadcast; what torch cannot multiply, it refuses itself."""
    module, tensors = encoding.build(), encoding.plain(6, with_positions=True)
    for name in set(WRONG_SHAPES[how]) & set(tensors):
        if encoding.door == "bias" and how.startswith("one position"):
            continue  # a bias may have any number of queries and keys
        if encoding.door == "bias" and how == "another batch":
            plain = encoding.plain(6)
            tensors = {other: value.expand(B, *value.shape) for other, value in plain.items()}
            wrong = tensors | {name: plain[name].expand(B + 1, *plain[name].shape)}
        else:
            wrong = tensors | {name: wrongly_shaped(tensors[name], how)}
        with refusal(encoding, name, got=f"{name} of shape {tuple(wrong[name].shape)}"):
            module(**wrong)


@contextlib.contextmanager
def refusal(encoding: Encoding, argument: str, got: str, own: bool = False) -> Iterator[list[Exception]]:
    """Expect an error: "<encoding>: <argument> must be …, got …", or one of torch's, unless it must be `own`."""
    caught: list[Exception] = []
    try:
        yield caught
    except LOUD as error:
        caught.append(error)
    form = f'ValueError("{encoding.name}: {argument} must be …, got …")'
    assert caught, f"{got} gives a result; raise {form}"
    is_own = isinstance(caught[0], ValueError) and str(caught[0]).startswith(f"{encoding.name}: ")
    assert is_own or not own, f"{got} ends in {caught[0]!r}; raise {form}"
    name, _, text = str(caught[0]).partition(": ")
    if name == encoding.name:
        named = MESSAGE.match(text)
        arguments = set(re.findall(r"\w+", named["argument"])) if named else set()
        alike = {"q": {"q", "k", "x"}, "k": {"q", "k", "x"}, "key_positions": {"positions", "key_positions"}}
        assert arguments & alike.get(argument, {argument}), f"{got} is refused with {caught[0]!r}; raise {form}"
