"""What every encoding promises, whatever its file says. A new file is tested here without being named.

How the inputs of each door are made, and what an encoding's own test file may add, is in tests/doors.py. What every
file of the package must look like is in tests/test_files.py.
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
from torch.utils._python_dispatch import TorchDispatchMode

from tests import doors
from tests.changed import changed
from tests.doors import POSITIONS, B, Encoding, H

LENGTHS = (1, 7, 64, 512, 1000)
DTYPES = [torch.float16, torch.bfloat16, torch.float32, torch.float64]
MESSAGE = re.compile(r"(?P<encoding>\w+): (?P<argument>[\w ]+) must be .+, got .+", re.S)


def worth_compiling(encoding: Encoding) -> list:
    """Return the variants to compile, which takes a second each: the first, by night or after a change all of them."""
    first, *others = encoding.variants()
    files = {path.relative_to(doors.ROOT).as_posix() for path in (encoding.path, doors.own_tests_path(encoding.key))}
    marks = [] if files & changed() else [pytest.mark.slow]
    return [first, *(pytest.param(variant, marks=marks) for variant in others)]


each = pytest.mark.parametrize("encoding", [v for e in doors.encodings() for v in e.variants()], ids=str)
each_compiled = pytest.mark.parametrize("encoding", [v for e in doors.encodings() for v in worth_compiling(e)], ids=str)
at_each_kind_of_position = pytest.mark.parametrize("kind", POSITIONS)
in_each_dtype = pytest.mark.parametrize("dtype", DTYPES, ids=str)


def assert_equal(actual, expected, atol=0.0):
    torch.testing.assert_close(actual, expected, rtol=0, atol=atol)


def assert_close(tensors, arrays, rtol=0.0, atol=0.0):
    """Compare what torch returned with what NumPy says, whole arrays."""
    for got, want in zip(tensors, arrays, strict=True):
        np.testing.assert_allclose(got.double().numpy(), want, rtol=rtol, atol=atol)


def far(encoding: Encoding) -> doors.Arguments:
    """Return arguments at far positions, with content that float32 holds."""
    arguments = encoding.arguments(POSITIONS[encoding.furthest()])
    return {name: a if "positions" in name else a.astype(np.float32).astype(float) for name, a in arguments.items()}


ORACLES: dict[tuple, tuple] = {}


def exact(encoding: Encoding, module: nn.Module) -> tuple:
    """Return what must come out at far positions; an oracle in mpmath takes seconds, and is asked once."""
    oracle = encoding.told("oracle", None)
    if oracle is None:
        return encoding.expected(far(encoding), module)
    if (oracle, str(encoding)) not in ORACLES:
        ORACLES[oracle, str(encoding)] = encoding.expected(far(encoding), module, oracle)
    return ORACLES[oracle, str(encoding)]


# The same function, in torch and in NumPy


@each
@at_each_kind_of_position
def test_torch_equals_numpy(encoding: Encoding, kind):
    if kind in encoding.told("REFUSED", ()):
        pytest.skip("refused, see test_refused_positions_are_refused")
    module, arguments = encoding.build().double(), encoding.arguments(POSITIONS[kind])
    actual = encoding.comparable(encoding.results(module, encoding.tensors(arguments)))
    coarse = 1e-15 * np.abs(POSITIONS[kind]).max()  # an angle of 10^7 radians has no more digits in float64
    rounded = 4 * torch.finfo(actual[0].dtype).eps  # a bias may be of float32
    assert_close(actual, encoding.expected(arguments, module), rtol=1e-12 + rounded, atol=1e-12 + coarse)


@each
def test_a_float32_result_is_exact_at_far_positions(encoding: Encoding):
    module = encoding.build()
    actual = encoding.comparable(encoding.results(module, encoding.tensors(far(encoding), torch.float32)))
    assert_close(actual, exact(encoding, module), rtol=1e-6, atol=1e-6)


@each
def test_the_numpy_function_is_exact_at_far_positions(encoding: Encoding):
    module = encoding.build()
    for got, want in zip(encoding.expected(far(encoding), module), exact(encoding, module), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-8, atol=1e-8)


@each
def test_the_numpy_function_computes_in_float64(encoding: Encoding):
    arguments = encoding.arguments(POSITIONS["start"])
    arguments = {name: array.astype(np.float32) for name, array in arguments.items()}
    assert {made.dtype for made in encoding.expected(arguments, encoding.build())} == {np.dtype(np.float64)}


@each
def test_refused_positions_are_refused(encoding: Encoding):
    for kind in encoding.told("REFUSED", ()):
        arguments = encoding.arguments(POSITIONS[kind])
        with pytest.raises(ValueError, match=MESSAGE):
            encoding.build()(**encoding.tensors(arguments))
        with pytest.raises(ValueError, match=MESSAGE):
            encoding.expected(arguments, encoding.build())


@each
def test_keys_stand_at_0_to_s_and_queries_at_the_last_t_of_them_by_default(encoding: Encoding):
    if not encoding.takes_text:
        pytest.skip("refused, see test_text_is_refused_where_a_token_needs_coordinates")
    keys = np.arange(7)
    given = encoding.tensors(encoding.arguments(keys[4:] if "k" in encoding.call else keys, keys))
    if encoding.door == "bias":
        omitted = {"positions": given["positions"]}
    else:
        omitted = {name: value for name, value in given.items() if "positions" not in name}
    module = encoding.build()
    assert_equal(encoding.results(module, omitted), encoding.results(module, given))


@each
def test_as_many_keys_stand_where_queries_are_said_to(encoding: Encoding):
    module, given = encoding.build(), encoding.plain(6, given=True)
    given |= {name: value + 3 for name, value in given.items() if "positions" in name}
    told = {name: value for name, value in given.items() if name != "key_positions"}
    assert_equal(encoding.results(module, told), encoding.results(module, given))
    if hasattr(module, "score_mod"):
        mods, zero = [module.score_mod(**tensors) for tensors in (told, given)], torch.zeros((), dtype=torch.long)
        assert_equal(*(modify(torch.zeros(()), zero, zero, zero + 4, zero + 1) for modify in mods))


@each
def test_text_is_refused_where_a_token_needs_coordinates(encoding: Encoding):
    """Else patch i of an image would stand at (i, i), and nothing would say so."""
    if encoding.takes_text:
        pytest.skip("it takes text")
    module, arguments = encoding.build(), encoding.arguments(np.arange(6), np.arange(6))
    tensors = encoding.tensors(arguments)
    for name in [name for name in tensors if "positions" in name]:
        wrong = [{name: torch.arange(6)}] + [{name: None}] * (encoding.door != "bias" and name == "positions")
        for call in (module, getattr(module, "score_mod", module)):
            for text in wrong:
                with refusal(encoding, name, r"\b(grid_positions|window_positions|axial_coordinates)\("), NoWork():
                    call(**tensors | text)
        with pytest.raises(ValueError, match=MESSAGE):  # the twin of a rotation has no other name for both
            encoding.expected(arguments | {name: np.arange(6)}, module)


@each
def test_one_query_after_a_cache_of_keys_equals_the_last_query_of_all(encoding: Encoding):
    module, keys = encoding.build(), np.arange(7)
    whole = encoding.tensors(encoding.arguments(keys, keys))
    last = {name: v[..., -1:, :] if name in ("x", "q") else v for name, v in whole.items()}
    last["positions"] = whole["positions"][-1:]
    of_all, of_one = encoding.results(module, whole)[0], encoding.results(module, last)[0]
    torch.testing.assert_close(of_one, of_all[..., -1:, :])


@each
def test_any_dtype_of_positions_gives_the_same(encoding: Encoding):
    module, tensors = encoding.build(), encoding.tensors(encoding.arguments(POSITIONS["unsorted"]))
    expected = encoding.results(module, tensors)
    for dtype in (torch.int32, torch.uint8, torch.float32, torch.float64):
        if not dtype.is_floating_point or "fractional" not in encoding.told("REFUSED", ()):
            other = {name: v.to(dtype) if "positions" in name else v for name, v in tensors.items()}
            assert_equal(encoding.results(module, other), expected)


@each
def test_one_row_of_positions_serves_a_batch(encoding: Encoding):
    module, rng = encoding.build(), np.random.default_rng(0)
    one, rows = np.array([3, 0, 70, 7, 7, 1]), rng.integers(0, 99, (B, 6))
    shared = encoding.tensors(encoding.arguments(one, one[::-1].copy()))
    own = encoding.tensors(encoding.arguments(rows, rows[:, ::-1].copy()))
    places = [name for name in encoding.call if "positions" in name]

    def results(positions):
        return encoding.results(module, shared | dict(zip(places, positions, strict=True)))

    kinds = [tuple(given[name] for given in (shared, own)) for name in places]
    for which in itertools.product((0, 1), repeat=len(places)):
        chosen = [kind[batched] for kind, batched in zip(kinds, which, strict=True)]
        full = [p if batched else p.expand(B, *p.shape) for p, batched in zip(chosen, which, strict=True)]
        row = [p if batched else p[None] for p, batched in zip(chosen, which, strict=True)]
        expected = results(full)
        for given in (row, chosen):  # (1, t) or (t,) beside (b, s)
            made = results(given)
            for part, whole in zip(made, expected, strict=True):
                torch.testing.assert_close(part.expand_as(whole), whole)


# A table made once, and the bias of FlexAttention


@each
def test_a_table_made_once_gives_the_same(encoding: Encoding):
    module = encoding.build()
    if not hasattr(module, "table"):
        pytest.skip("it has nothing to share")
    arguments = encoding.tensors(encoding.arguments(np.arange(2, 8), np.arange(2, 8)), torch.float32)
    expected = encoding.results(module, arguments)
    table = module.table(arguments["positions"])
    given = {name: value for name, value in arguments.items() if "positions" not in name}
    assert_equal(encoding.results(module, given | {"table": table}), expected)
    if encoding.door == "rotate":
        last = given | {"q": given["q"][..., 4:, :]}  # the last queries take the last rows
        assert_equal(encoding.results(module, last | {"table": table})[0], expected[0][..., 4:, :])
        two = given | {"table": (table, table)}
        assert_equal(encoding.results(module, two), expected)


@each
@at_each_kind_of_position
def test_a_score_mod_equals_the_dense_scores(encoding: Encoding, kind):
    module, arguments = encoding.build(), encoding.arguments(POSITIONS[kind])
    if not hasattr(module, "score_mod"):
        assert encoding.door != "bias", "every bias has a score_mod"
        pytest.skip("its score of a pair needs the pairs between them")
    if kind in encoding.told("REFUSED", ()):
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
    made = modify(logits, *(torch.arange(size) for size in logits.shape))
    assert_equal(made.float(), (logits + dense).float(), atol=2e-6 * (1 + dense.abs().max().item()))


# What comes out


@each
@in_each_dtype
def test_the_result_has_the_dtype_of_the_input(encoding: Encoding, dtype):
    tensors = encoding.tensors(encoding.arguments(POSITIONS["start"]), dtype)
    for result in encoding.results(encoding.build(), tensors):
        assert result.is_floating_point()
        assert result.dtype == dtype or encoding.door == "bias"  # a bias sees positions only


@each
@pytest.mark.parametrize("dtype", DTYPES[:3], ids=str)
def test_a_result_is_rounded_once_however_far_the_positions(encoding: Encoding, dtype):
    if encoding.door == "bias":
        pytest.skip("a bias has no input to take a dtype from")
    module, arguments = encoding.build(), far(encoding)
    tensors = encoding.tensors(arguments, dtype)
    given = {name: a if "positions" in name else tensors[name].double().numpy() for name, a in arguments.items()}
    rounded = encoding.comparable(encoding.results(module, tensors))
    expected = encoding.expected(given, module)
    largest = max(np.abs(made).max() for made in expected)
    assert_close(rounded, expected, atol=4 * torch.finfo(dtype).eps * largest)


@each
def test_inputs_are_not_changed(encoding: Encoding):
    tensors = encoding.plain(6, given=True)
    before = copy.deepcopy(tensors)
    encoding.build().train()(**tensors)
    assert_equal(tensors, before)
    assert all(value._version == 0 for value in tensors.values()), "written to, even if written back"


@each
def test_writing_to_a_result_leaves_the_inputs_alone(encoding: Encoding):
    tensors = encoding.plain(6, given=True)
    before = copy.deepcopy(tensors)
    for result in encoding.results(encoding.build(), tensors):
        result.detach().zero_()
    assert_equal(tensors, before)


@each
def test_strides_do_not_matter(encoding: Encoding):
    module, tensors = encoding.build(), encoding.plain(6, given=True)
    strided = {name: value.mT.contiguous().mT if value.ndim > 1 else value for name, value in tensors.items()}
    assert_equal(encoding.results(module, strided), encoding.results(module, tensors))


@each
def test_integer_content_is_refused_or_gives_floats(encoding: Encoding):
    if encoding.door == "bias":
        pytest.skip("a bias has no content")
    module, tensors = encoding.build(), encoding.plain(6, given=True)
    whole = {name: value if "positions" in name else (3 * value).long() for name, value in tensors.items()}
    same = {name: value if "positions" in name else value.double() for name, value in whole.items()}
    try:
        results = encoding.results(module, whole)
    except ValueError:
        return
    for got, want in zip(results, encoding.results(module, same), strict=True):
        assert_equal(got.double(), want, atol=1e-6)


@each
def test_integer_content_does_not_truncate_in_numpy(encoding: Encoding):
    arguments = encoding.arguments(POSITIONS["start"])
    whole = {name: a if "positions" in name else np.rint(3 * a).astype(int) for name, a in arguments.items()}
    same = {name: a.astype(float) for name, a in whole.items()}
    module = encoding.build()
    for got, want in zip(encoding.expected(whole, module), encoding.expected(same, module), strict=True):
        np.testing.assert_array_equal(got, want)


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
        assert got.dtype == want.dtype or encoding.door == "bias"
        assert_equal(got.float(), want.float(), atol=tolerance)


@each
@in_each_dtype
def test_casting_the_module_changes_nothing(encoding: Encoding, dtype):
    module = encoding.build().to(dtype)
    results = encoding.results(module, encoding.tensors(far(encoding), torch.float32))
    assert_as_without_the_cast(encoding, module, results, dtype)


@each
@in_each_dtype
def test_the_default_dtype_changes_nothing(encoding: Encoding, dtype):
    tensors = encoding.tensors(far(encoding), torch.float32)
    with default_dtype(dtype):
        module = encoding.build()
        results = encoding.results(module, tensors)
    assert_as_without_the_cast(encoding, module, results, dtype)


@each
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
def test_autocast_changes_nothing_but_products_of_content(encoding: Encoding, dtype):
    module, tensors = encoding.build(), encoding.tensors(far(encoding), torch.float32)
    with torch.autocast("cpu", dtype=dtype):
        results = encoding.results(module, tensors)
    for got, want in zip(results, encoding.results(module, tensors), strict=True):
        products = 4 * torch.finfo(dtype).eps * want.abs().max().item() if encoding.door == "score" else 0.0
        assert_equal(got.float(), want, atol=products)


# Nothing is stored


@each
def test_only_what_is_learned_is_stored(encoding: Encoding):
    module = encoding.build()
    assert set(module.state_dict()) == set(dict(module.named_parameters())) == set(encoding.told("LEARNED", ()))
    assert not list(module.buffers())


@each
def test_every_parameter_is_an_argument_of_the_numpy_function(encoding: Encoding):
    wanted = inspect.signature(encoding.function).parameters
    assert not [name for name, _ in encoding.build().named_parameters() if name not in wanted]


@each
def test_no_tensor_hides_in_an_attribute(encoding: Encoding):
    module = encoding.build()
    encoding.results(module, encoding.plain(6))
    for part in module.modules():
        for name, value in vars(part).items():
            assert name == "_parameters" or not list(tensors_in(value)), f"{name} holds a tensor"


def tensors_in(value) -> Iterator[object]:
    if isinstance(value, torch.Tensor | np.ndarray):
        yield value
    elif isinstance(value, dict):
        yield from tensors_in(list(value.values()))
    elif isinstance(value, list | tuple | set):
        for item in value:
            yield from tensors_in(item)


@each
def test_a_call_leaves_no_trace(encoding: Encoding):
    module = encoding.build()
    before = [repr(vars(module)), repr(vars(type(module))), state_of(encoding.module)]
    for length in (3, 9):
        encoding.results(module, encoding.plain(length))
        encoding.expected(encoding.arguments(np.arange(length)), module)
    assert [repr(vars(module)), repr(vars(type(module))), state_of(encoding.module)] == before


def state_of(module) -> dict[str, str]:
    return {name: repr(value) for name, value in vars(module).items() if not name.startswith("__")}


@each
def test_nothing_is_cached(encoding: Encoding):
    owners = [encoding.module, *encoding.classes]
    assert not [name for owner in owners for name, value in vars(owner).items() if hasattr(value, "cache_clear")]


@each
def test_a_call_does_not_depend_on_the_calls_before(encoding: Encoding):
    used = encoding.build()
    for length, dtype in [(6, torch.float32), (9, torch.bfloat16), (3, torch.float64), (6, torch.float64)]:
        tensors = encoding.plain(length, dtype)
        assert_equal(encoding.results(used, tensors), encoding.results(encoding.build(), tensors))
    tensors = encoding.tensors(encoding.arguments(POSITIONS["unsorted"]))
    assert_equal(encoding.results(used, tensors), encoding.results(encoding.build(), tensors))


@each
def test_two_bases_share_nothing(encoding: Encoding):
    if "base" not in inspect.signature(encoding.classes[0]).parameters or "base" in encoding.options:
        pytest.skip("it has no base, or the variant fixes it")
    tensors, arguments = encoding.plain(6, given=True), encoding.arguments(np.arange(6), np.arange(6))
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


@each_compiled
def test_compiles_at_most_twice_over_all_lengths(encoding: Encoding):
    module = encoding.build()
    for given in kinds_of_positions(encoding):
        compiled, graphs = compiled_and_its_graphs(module)
        for length in LENGTHS:
            tensors = encoding.plain(length, torch.float32, given)
            assert_equal(compiled(**tensors), module(**tensors))
        assert len(graphs) <= 2, f"positions {'given' if given else 'by default'}"


@each_compiled
def test_compiles_at_most_twice_over_all_sizes(encoding: Encoding):
    module = encoding.build()
    heads_of_its_own = "heads" in inspect.signature(encoding.classes[0]).parameters
    for given in kinds_of_positions(encoding):
        compiled, graphs = compiled_and_its_graphs(module, dynamic=True)
        for batch, more, length in ((5, 1, 11), (19, 2, 13), (23, 3, 64)):  # no two sizes alike: torch would tie them
            tensors = encoding.plain(length, torch.float32, given)
            for name in set(tensors) & {"x", "q", "k"}:
                rows = tensors[name][:1].repeat_interleave(batch, dim=0)
                apart = name == "x" or heads_of_its_own
                tensors[name] = rows if apart else rows.repeat_interleave(more, dim=1)
            assert_equal(compiled(**tensors), module(**tensors))
        assert len(graphs) <= 2, f"positions {'given' if given else 'by default'}"


@each_compiled
def test_one_exported_program_serves_every_length(encoding: Encoding):
    module, example = encoding.build(), encoding.plain(6, torch.float32)
    length = torch.export.Dim("length", min=2, max=4096)
    axes = {name: {value.ndim - encoding.axes_after_length(name): length} for name, value in example.items()}
    program = torch.export.export(module, args=(), kwargs=example, dynamic_shapes=axes)
    longer = encoding.plain(11, torch.float32)
    assert_equal(program.module()(**longer), module(**longer))


@each
def test_vmap_over_content_and_positions_equals_a_loop(encoding: Encoding):
    module, kinds = encoding.build(), [np.arange(6), np.array([5, 0, 2, 70, 1, 1])]
    calls = [encoding.tensors(encoding.arguments(positions, positions[::-1].copy())) for positions in kinds]
    stacked = tuple(torch.stack([call[name] for call in calls]) for name in encoding.call)
    actual = torch.func.vmap(module)(*stacked)
    looped = [encoding.results(module, call) for call in calls]
    expected = tuple(torch.stack(made) for made in zip(*looped, strict=True))
    torch.testing.assert_close(actual if isinstance(actual, tuple) else (actual,), expected)


@each
def test_on_the_meta_device_only_shapes_are_computed(encoding: Encoding):
    tensors = encoding.tensors(encoding.arguments(POSITIONS["batched"]), torch.bfloat16)
    real = encoding.results(encoding.build(), tensors)
    meta = encoding.results(encoding.build().to("meta"), {name: value.to("meta") for name, value in tensors.items()})
    assert [(m.device.type, m.shape, m.dtype) for m in meta] == [("meta", r.shape, r.dtype) for r in real]


@each
def test_a_module_built_on_the_meta_device_lacks_nothing_but_its_parameters(encoding: Encoding):
    reference = encoding.build()
    with torch.device("meta"):
        module = encoding.build()
    module.to_empty(device="cpu")
    module.load_state_dict(reference.state_dict())
    tensors = encoding.plain(6)
    assert_equal(encoding.results(module, tensors), encoding.results(reference, tensors))


@each
@pytest.mark.parametrize("given", [False, True], ids=["default positions", "given positions"])
def test_a_result_lies_on_the_device_of_the_inputs(encoding: Encoding, given):
    module, tensors = encoding.build(), encoding.plain(6, given=given)
    expected = encoding.results(module, tensors)
    with torch.device("meta"):  # the default device, which must not matter
        results = encoding.results(module, tensors)
    assert_equal(results, expected)


@each
def test_nothing_is_recorded_under_no_grad(encoding: Encoding):
    tensors = {n: v.requires_grad_(v.is_floating_point()) for n, v in encoding.plain(6).items()}
    with torch.no_grad():
        assert not any(result.requires_grad for result in encoding.results(encoding.build(), tensors))


@each
def test_works_in_inference_mode(encoding: Encoding):
    module, tensors = encoding.build(), encoding.plain(6)
    with torch.inference_mode():
        results = encoding.results(module, tensors)
    assert_equal([result.clone() for result in results], list(encoding.results(module, tensors)))


@each
def test_gradients_flow_to_the_content(encoding: Encoding):
    content = {n: v.requires_grad_() for n, v in encoding.plain(3, given=True).items() if "positions" not in n}
    rest = {n: v for n, v in encoding.plain(3, given=True).items() if "positions" in n}
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


@each
def test_gradients_flow_to_every_parameter(encoding: Encoding):
    module = encoding.build()
    results = encoding.results(module, encoding.tensors(encoding.arguments(POSITIONS["batched"]), torch.float32))
    for name, parameter in module.named_parameters():
        weighted = sum((result * torch.rand_like(result)).sum() for result in results)
        (gradient,) = torch.autograd.grad(weighted, parameter, retain_graph=True)
        assert gradient.isfinite().all(), name
        assert gradient.count_nonzero(), name


# Wrong arguments

WRONG_SETTINGS = {
    "dim": [0, -2, 1.5],
    "heads": [0, -1],
    "base": [0, -1.0, float("nan"), float("inf")],
    "dropout": [-0.1, 1.5],
}


@each
def test_wrong_settings_are_refused_by_the_class(encoding: Encoding):
    for argument, value in wrong_settings(encoding.classes[0]):
        with refusal(encoding, argument):
            encoding.build(**{argument: value})


@each
def test_wrong_settings_are_refused_by_the_numpy_function(encoding: Encoding):
    module, arguments = encoding.build(), encoding.arguments(np.arange(6), np.arange(6))
    for argument, value in wrong_settings(encoding.function):
        wrong = replace(encoding, options=encoding.options | {argument: value})
        with refusal(encoding, argument):
            wrong.expected(arguments, module)


def wrong_settings(function) -> Iterator[tuple[str, object]]:
    """Yield bad values for the settings that `function` takes; any setting that is a word refuses another word."""
    for name, parameter in inspect.signature(function).parameters.items():
        words = ["no such word"] if isinstance(parameter.default, str) else []
        yield from ((name, value) for value in WRONG_SETTINGS.get(name, words))


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


class NoWork(TorchDispatchMode):
    """Fail where an operation runs that computes something."""

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        raise AssertionError(f"{func} ran before the arguments were checked")


@each
@pytest.mark.parametrize("how", WRONG_SHAPES)
def test_wrong_shapes_are_refused_before_any_work(encoding: Encoding, how):
    module, tensors = encoding.build(), encoding.plain(6, given=True)
    for name in set(WRONG_SHAPES[how]) & set(tensors):
        if encoding.door == "bias" and how.startswith("one position"):
            continue  # a bias may have any number of queries and keys
        if encoding.door == "bias" and how == "another batch":
            plain = encoding.plain(6)
            tensors = {other: value.expand(B, *value.shape) for other, value in plain.items()}
            wrong = tensors | {name: plain[name].expand(B + 1, *plain[name].shape)}
        else:
            wrong = tensors | {name: wrongly_shaped(tensors[name], how)}
        with refusal(encoding, name), NoWork():
            module(**wrong)


@contextlib.contextmanager
def refusal(encoding: Encoding, argument: str, remedy: str = "") -> Iterator[None]:
    """Expect "<encoding>: <argument> must be <condition>, got <value>", and a remedy after it."""
    with pytest.raises(ValueError, match=MESSAGE) as caught:
        yield
    said = MESSAGE.match(str(caught.value))
    assert re.search(remedy, str(caught.value))
    assert said["encoding"] == encoding.name
    assert argument in re.findall(r"\w+", said["argument"])
