"""The contract is itself tested: it accepts a toy for each door, and catches faults planted in each.

The doors that the package does not use yet are tried too, so that a first encoding in one needs no new harness.
"""

import inspect
import itertools
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from tests import doors, test_contract, test_files
from tests.doors import Encoding

TOYS = Path(__file__).parent / "toys"
OWN = {
    "add/row": SimpleNamespace(
        OPTIONS=[{"length": 1024}], LEARNED={"weight"}, REFUSED={"far", "fractional", "negative"}
    ),
    "rotate/turn": SimpleNamespace(OPTIONS=[{}, {"sense": "right"}]),
    "bias/slope": SimpleNamespace(),
    "score/nearby": SimpleNamespace(LEARNED={"weight"}),
}
PACKAGE_ONLY = {"test_has_its_own_tests", "test_has_a_page_that_imports_it"}
CONTRACT = {
    name: test
    for module in (test_contract, test_files)
    for name, test in vars(module).items()
    if name.startswith("test_") and "encoding" in inspect.signature(test).parameters and name not in PACKAGE_ONLY
}

each_toy = pytest.mark.parametrize("key", OWN)


def toy(key: str, path: Path | None = None) -> Encoding:
    return Encoding(key, doors.load(path or TOYS / f"{key}.py", key.partition("/")[2]), OWN[key])


def run(test, encoding: Encoding) -> None:
    """Run one contract test on every variant of `encoding`, for every other parameter of the test."""
    marks = [mark.args for mark in test.pytestmark if mark.args[0] != "encoding"]
    for variant, *values in itertools.product(encoding.variants(), *(choices for _, choices in marks)):
        try:
            test(variant, **dict(zip([name for name, _ in marks], values, strict=True)))
        except pytest.skip.Exception:
            continue


@each_toy
@pytest.mark.parametrize("name", CONTRACT)
def test_a_healthy_encoding_passes(key, name):
    run(CONTRACT[name], toy(key))


def test_the_toys_can_be_copied(tmp_path):
    assert test_files.copied_alone([toy(key) for key in OWN], tmp_path) == list(OWN)


FAULTS = [
    # rotate/turn
    ("rotate/turn", "torch_equals_numpy", "angle = angle if self.sense", "angle = -angle if self.sense"),
    ("rotate/turn", "torch_equals_numpy", "(-2 * pair / self.dim)", "(-2 * (pair + 1) / self.dim)"),
    ("rotate/turn", "torch_equals_numpy", "self._turned(k, key_positions)", "self._turned(k, key_positions + 1)"),
    ("rotate/turn", "torch_equals_numpy", "[..., None, :, None]", "[..., :, None]"),
    ("rotate/turn", "a_float32_result_is_exact_at_far_positions", "positions.double()", "positions.float()"),
    ("rotate/turn", "a_float32_result_is_exact_at_far_positions", "dtype=torch.float64", "dtype=torch.float32"),
    ("rotate/turn", "keys_stand_at_0_to_s_and_queries_at_the_last_t_of_them_by_default", "keys - queries, keys", "queries"),
    ("rotate/turn", "one_query_after_a_cache_of_keys_equals_the_last_query_of_all", "self._turned(q, p", "self._turned(q, -positions[..., :1] + p"),
    ("rotate/turn", "the_result_has_the_dtype_of_the_input", ".to(x)", ".float()"),
    ("rotate/turn", "a_result_is_rounded_once_however_far_the_positions", "x.double()", "x.bfloat16()"),
    ("rotate/turn", "inputs_are_not_changed", "first, second = x.double()", "x.mul_(1)\n        first, second = x.double()"),
    ("rotate/turn", "integer_content_does_not_truncate_in_numpy", "return np.concatenate(", "return np.array("),
    ("rotate/turn", "two_bases_share_nothing", "self.dim, self.base, self.sense = dim, base,", "self.dim, self.base, self.sense = dim, 10_000.0,"),
    ("rotate/turn", "wrong_shapes_are_refused_before_any_work", 'self._fits("k", k, "key_positions", key_positions)', "pass"),
    ("rotate/turn", "wrong_settings_are_refused_by_the_class", "_check(dim, base, sense)\n        self", "self"),
    ("rotate/turn", "wrong_settings_are_refused_by_the_numpy_function", "_check(x.shape[-1], base, sense)", "pass"),
    ("rotate/turn", "options_are_spelled_the_same_in_numpy_and_torch", 'dim: int, base: float = 10_000.0, sense: str = "left"', 'dim: int, base: float = 10_000.0, sense: str = "right"'),
    ("rotate/turn", "a_result_lies_on_the_device_of_the_inputs", "dtype=torch.float64, device=x.device", "dtype=torch.float64"),
    ("rotate/turn", "the_call_is_that_of_the_door", "positions: Tensor | None = None, key_p", "where: Tensor | None = None, key_p"),
    ("rotate/turn", "the_file_has_shape_comments_all_true_and_all_reached", "# (t, d/2)", "# (d/2, t)"),
    # bias/slope
    ("bias/slope", "torch_equals_numpy", ".abs()", ""),
    ("bias/slope", "torch_equals_numpy", "0.5 ** torch", "0.25 ** torch"),
    ("bias/slope", "a_float32_result_is_exact_at_far_positions", "positions.double()", "positions.bfloat16()"),
    ("bias/slope", "keys_stand_at_0_to_s_and_queries_at_the_last_t_of_them_by_default", "= positions\n", "= positions + 1\n"),
    ("bias/slope", "any_dtype_of_positions_gives_the_same", "positions.double()[..., :, None] - key_positions.double()", "positions[..., :, None] - key_positions"),
    ("bias/slope", "wrong_shapes_are_refused_before_any_work", "len(positions) != len(key_positions)", "False"),
    ("bias/slope", "wrong_settings_are_refused_by_the_class", "heads < 1", "heads < -9"),
    ("rotate/turn", "the_default_dtype_changes_nothing", "dtype=torch.float64", "dtype=torch.get_default_dtype()"),
    ("bias/slope", "only_what_is_learned_is_stored", "self.heads = heads", 'self.heads = heads\n        self.register_buffer("a", torch.ones(2))'),
    ("bias/slope", "only_what_is_learned_is_stored", "self.heads = heads", 'self.heads = heads\n        self.register_buffer("a", torch.ones(2), persistent=False)'),
    ("bias/slope", "only_what_is_learned_is_stored", "self.heads = heads", "self.heads, self.a = heads, nn.Parameter(torch.ones(2))"),
    ("bias/slope", "no_tensor_hides_in_an_attribute", "self.heads = heads", "self.heads, self.a = heads, {1: torch.ones(2)}"),
    ("bias/slope", "the_docstring_names_paper_and_axes", "Paper:", "See"),
    ("bias/slope", "the_class_is_named_like_the_file", "class Slope", "class Sloping"),
    # score/nearby
    ("score/nearby", "torch_equals_numpy", "positions[..., :, None].double()", "positions[:, None].double() * 0"),
    ("score/nearby", "torch_equals_numpy", " / self.dim**0.5", ""),
    ("score/nearby", "torch_equals_numpy", "-self.reach, self.reach).long()", "0, self.reach).long()"),
    ("score/nearby", "every_parameter_is_an_argument_of_the_numpy_function", "self.weight", "self.vectors"),
    ("score/nearby", "gradients_flow_to_every_parameter", "self.weight.to(q)", "self.weight.detach().to(q)"),
    ("score/nearby", "gradients_flow_to_the_content", '"bhtd,btsd->bhts", q', '"bhtd,btsd->bhts", q.detach()'),
    ("score/nearby", "a_call_leaves_no_trace", "offset = key", "self.seen = queries\n        offset = key"),
    ("score/nearby", "compiles_at_most_twice_over_all_lengths", "offset = key", "q = q + 1 if q.sum() > 1e9 else q\n        offset = key"),
    ("score/nearby", "compiles_at_most_twice_over_all_lengths", "offset = key", "self.calls = getattr(self, 'calls', 0) + 1\n        offset = key * self.calls // self.calls + 0 * key"),
    ("score/nearby", "vmap_over_content_and_positions_equals_a_loop", "offset = key", "positions.max().item()\n        offset = key"),
    ("score/nearby", "one_exported_program_serves_every_length", "offset = key", "positions = positions[:6]\n        offset = key"),
    ("score/nearby", "on_the_meta_device_only_shapes_are_computed", "offset = key", "positions.tolist()\n        offset = key"),
    ("bias/slope", "nothing_is_cached", "def _check", "@__import__('functools').cache\ndef _check"),
    # add/row
    ("add/row", "refused_positions_are_refused", "(positions % 1).any() or positions.min() < 0 or", ""),
    ("add/row", "refused_positions_are_refused", "if positions.is_floating_point()", "if False"),
    ("add/row", "integer_content_is_refused_or_gives_floats", "not x.is_floating_point() or", ""),
    ("add/row", "wrong_shapes_are_refused_before_any_work", "(x.shape[-2:-1], x.shape[:-1])", "(x.shape[-2:-1], x.shape[:-1], (1,))"),
    ("add/row", "casting_the_module_changes_nothing", "x + rows.to(x)", "x + rows"),
    ("add/row", "writing_to_a_result_leaves_the_inputs_alone", "return x + rows.to(x)", "return x if x.requires_grad is None else x.view_as(x)"),
    ("add/row", "the_file_imports_numpy_torch_and_the_standard_library_only", "import numpy as np", "import mpmath\nimport numpy as np"),
]


@pytest.mark.parametrize(("key", "test", "old", "new"), FAULTS, ids=[f"{f[0]} {f[1]} {n}" for n, f in enumerate(FAULTS)])
def test_a_planted_fault_is_caught(tmp_path, key, test, old, new):
    source = (TOYS / f"{key}.py").read_text()
    assert old in source
    path = tmp_path / f"{key}.py"
    path.parent.mkdir()
    path.write_text(source.replace(old, new))
    with pytest.raises((Exception, pytest.fail.Exception)):
        run(CONTRACT[f"test_{test}"], toy(key, path))
