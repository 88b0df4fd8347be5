"""The doctor: it names each bug that can be seen, and finds nothing wrong in healthy code."""

import subprocess
import sys

import pytest
import torch
from torch import nn

import posenc
from posenc.__main__ import main
from posenc.attention import attention
from posenc.doctor import Finding, Report, diagnose
from posenc.rotate.frequencies import linear, llama3, yarn
from tests.contract.encoding_inputs import ROOT
from tests.doctor import cases
from tests.doctor.cases import CASES, UNSEEN, Case
from tests.peers import peer

pytest_plugins = ["pytester"]
each = pytest.mark.parametrize("case", CASES, ids=lambda case: case.faulty.__name__)
HEALTHY = {case.healthy.__name__: case.healthy for case in CASES}


@each
def test_a_bug_is_named(case: Case):
    report = diagnose(case.faulty)
    said = [f for f in report.findings if f.check == case.check and f.verdict == case.verdict]
    assert any(case.phrase in finding.words for finding in said), str(report)
    assert report.healthy == (case.verdict != "wrong")


@pytest.mark.parametrize("name", HEALTHY)
def test_the_healthy_version_is_healthy(name):
    report = diagnose(HEALTHY[name])
    assert report.healthy, str(report)
    phrases = [case.phrase for case in CASES if case.healthy is HEALTHY[name]]
    assert not [phrase for phrase in phrases if phrase in str(report)]
    assert not [finding for finding in report.findings if "the check itself raises" in finding.words]


def test_each_of_the_23_bugs_is_seen_or_known_to_be_out_of_sight():
    assert {case.row for case in CASES if case.row} | set(UNSEEN) == set(range(1, 24))


# The package itself


@pytest.mark.parametrize(
    "build",
    [
        lambda: posenc.RoPE(64, layout="interleaved"),
        lambda: posenc.RoPE(64, rotary_dim=16, base=500_000.0),
        lambda: posenc.RoPE,
        lambda: posenc.RoPE(64),
        lambda: posenc.rope,
        lambda: posenc.PoPE(64, heads=4),
        lambda: posenc.XPos(64),
        lambda: posenc.Sinusoidal(64),
        lambda: posenc.Sinusoidal(64, order="split", scale=True),
        lambda: posenc.Sinusoidal(64, order="tensor2tensor"),
        lambda: posenc.Sinusoidal,
        lambda: posenc.sinusoidal,
        lambda: posenc.ALiBi(12),
        lambda: posenc.ALiBi(8, causal=True),
        lambda: posenc.ALiBi,
        lambda: posenc.alibi,
        lambda: posenc.alibi_slopes,
        lambda: posenc.ALiBi(4).score_mod(torch.arange(24)),
        lambda: posenc.T5(heads=4),
        lambda: posenc.KERPLE(heads=4),
        lambda: posenc.Sandwich(heads=4),
        lambda: attention,
    ],
)
def test_the_package_passes(build):
    report = diagnose(build())
    assert report.healthy, str(report)


@pytest.mark.parametrize(
    "build",
    [lambda: posenc.RoPE(64), lambda: posenc.ALiBi(4), lambda: posenc.XPos(64), lambda: posenc.PoPE(64, heads=4)],
)
def test_attention_with_each_encoding_passes(build):
    encoding = build()

    def attend(q, k, v, positions=None, key_positions=None, causal=False, mask=None):
        return attention(q, k, v, encoding, positions, key_positions, causal=causal, mask=mask)

    report = diagnose(attend)
    assert report.healthy, str(report)
    assert report.finding("shift").verdict == report.finding("order").verdict == report.finding("decoding").verdict == "ok"


# What it reads


@pytest.mark.parametrize(
    ("base", "layout", "width"), [(10_000.0, "half", 64), (500_000.0, "interleaved", 32), (1e6, "half", 16)]
)
def test_layout_width_and_base_are_read(base, layout, width):
    report = diagnose(posenc.RoPE(64, base=base, layout=layout, rotary_dim=width))
    assert report.finding("layout").words.startswith(layout)
    assert report.finding("layout").number == width
    assert report.finding("frequencies").number == pytest.approx(base)
    assert f"base {base:,.6g}" in report.finding("frequencies").words


def test_scalings_are_named():
    assert "divided by 4 " in diagnose(posenc.RoPE(64, theta=linear(64, 4.0)[0])).finding("frequencies").words
    assert "slowed 8 times" in diagnose(posenc.RoPE(64, theta=llama3(64)[0])).finding("frequencies").words
    theta, factor = yarn(64, 16.0, 4096)
    report = diagnose(posenc.RoPE(64, theta=theta, attention_factor=factor))
    assert "YaRN's factor for a scaling by 16" in report.finding("norm").words


def test_an_operator_that_binds_otherwise_is_named_at_any_width():
    for dim in (16, 64, 512):
        finding = diagnose(cases.precedence_table, dim=dim).finding("speeds")
        assert finding.verdict == "wrong"
        assert "-log(10000)/d//2" in finding.words


def test_an_attention_factor_is_measured():
    finding = diagnose(posenc.RoPE(64, attention_factor=1.4852)).finding("norm")
    assert finding.verdict == "note"
    assert finding.number == pytest.approx(1.4852)
    assert "logits by 2.2058" in finding.words


def test_a_rotation_the_other_way_is_a_note():
    def backwards(x, positions):
        return cases.rotation(x, -positions)

    assert diagnose(backwards).finding("direction").verdict == "note"


def test_a_length_limit_is_found():
    class Tabled(nn.Module):
        def __init__(self, dim):
            super().__init__()
            self.table = torch.arange(3000)[:, None] * cases.thetas(dim)

        def forward(self, x, positions):
            return cases.turned(x, self.table[positions])

    finding = diagnose(Tabled).finding("limit")
    assert finding.verdict == "note"
    assert finding.number == 2999


def test_meta_s_own_code_is_understood():
    """(b, t, h, d), complex numbers, and the place of the first token."""

    def apply_rotary(xq, xk, start_pos=0):
        angle = (start_pos + torch.arange(xq.shape[1]))[:, None] * cases.thetas(xq.shape[-1])
        turn = torch.polar(torch.ones_like(angle), angle)[:, None]
        pairs = (torch.view_as_complex(x.float().unflatten(-1, (-1, 2)).contiguous()) for x in (xq, xk))
        return tuple(torch.view_as_real(pair * turn).flatten(-2).type_as(xq) for pair in pairs)

    report = diagnose(apply_rotary)
    assert report.healthy, str(report)
    assert "(b, t, h, d)" in report.finding("axes").words
    assert report.finding("layout").words.startswith("interleaved")
    assert report.finding("decoding").verdict == "ok"


def test_a_module_that_returns_the_table_alone():
    class Alone(nn.Module):
        def forward(self, x):
            return cases.table(x.shape[1], x.shape[2])

    report = diagnose(Alone())
    assert (report.kind, report.healthy) == ("table", True)
    assert report.finding("speeds").verdict == "ok"


def test_a_table_that_is_appended_is_not_added():
    class Appends(nn.Module):
        def forward(self, x):
            return torch.cat((x, cases.table(x.shape[1], 8).expand(len(x), -1, -1)), dim=-1)

    assert "appended" in diagnose(Appends()).finding("sum").words


def test_a_clipped_bias_is_seen_and_one_of_the_query_s_place_is_a_note():
    def clipped(positions, key_positions):
        offset = key_positions.clamp(max=5000)[None, :] - positions.clamp(max=5000)[:, None]
        return -cases.slopes(4)[:, None, None] * offset.abs()

    assert "neighbors share a number" in diagnose(clipped).finding("far positions").words
    assert diagnose(posenc.FIRE(heads=4)).finding("far positions").verdict == "note"


def test_the_sign_of_a_bias_that_learns_it_is_a_note_and_one_that_is_built_in_is_wrong():
    fire = posenc.FIRE(heads=4)
    with torch.no_grad():
        for parameter in fire.parameters():
            parameter.abs_()
    assert "that training can turn" in diagnose(fire).finding("sign").words
    assert diagnose(fire).healthy

    class Reversed(posenc.KERPLE):
        def forward(self, positions, key_positions):
            return -super().forward(positions, key_positions)

    assert diagnose(posenc.KERPLE(heads=4)).finding("sign").verdict == "ok"
    assert diagnose(Reversed(heads=4)).finding("sign").verdict == "wrong"


def test_halves_with_a_table_for_interleaved_pairs():
    def rotate(x, positions):
        angle = (positions[:, None] * cases.thetas(x.shape[-1])).repeat_interleave(2, dim=-1)
        first, second = x.chunk(2, dim=-1)
        return x * angle.cos() + torch.cat((-second, first), dim=-1) * angle.sin()

    assert "is repeated for the interleaved one" in diagnose(rotate).finding("norm").words


def test_rounded_parameters_are_a_note():
    class Learned(nn.Module):
        def __init__(self, dim):
            super().__init__()
            self.theta = nn.Parameter(cases.thetas(dim))

        def forward(self, x, positions):
            return cases.turned(x, positions[:, None] * self.theta)

    finding = diagnose(Learned).finding("module cast")
    assert finding.verdict == "note"
    assert "what is learned is rounded" in finding.words


def test_dropout_that_stays_on_is_seen():
    class Drops(nn.Module):
        def forward(self, x):
            return nn.functional.dropout(x + 1 + cases.table(x.shape[1], x.shape[2]), 0.5)

    assert "dropout stays on" in diagnose(Drops(), kind="table").finding("repeatable").words


def test_half_the_exponent_shows_as_the_square_root_of_the_base():
    def rotate(x, positions):
        return cases.turned(x, positions[:, None] * cases.thetas(x.shape[-1], 100.0))

    finding = diagnose(rotate).finding("frequencies")
    assert (finding.verdict, finding.id) == ("wrong", "exponent-halved")
    assert "square root" in finding.words


def test_a_base_that_is_named_is_no_square_root():
    def rotate(x, positions, base=100.0):
        return cases.turned(x, positions[:, None] * cases.thetas(x.shape[-1], base))

    assert diagnose(rotate).finding("frequencies").verdict == "ok"


def test_axes_in_another_order():
    def rotate(xq, xk, positions):
        return tuple(cases.rotation(x.transpose(1, 2), positions).transpose(1, 2) for x in (xq, xk))

    def rotate_from_0(x):
        return cases.rotation(x.transpose(1, 2), torch.arange(x.shape[1])).transpose(1, 2)

    assert diagnose(rotate, order="bthd").healthy
    for function in (rotate, rotate_from_0):
        assert diagnose(function).healthy
        assert "(b, t, h, d)" in diagnose(function).finding("axes").words
    assert diagnose(cases.AlongBatch, order="tbd").healthy


def test_rows_of_positions_are_found_out_and_read_rightly():
    for order in (None, "bhtd"):
        report = diagnose(cases.row_rotation, order=order)
        assert report.healthy
        assert report.finding("positions").words == "passed as a row for each text, (b, t)"
        assert report.finding("batched positions").verdict == "ok"
        assert not [finding for finding in report.findings if finding.check == "axes"]


def test_rows_of_positions_with_heads_third():
    def rotate(q, k, position_ids):
        turned = cases.row_rotation(q.transpose(1, 2), k.transpose(1, 2), position_ids)
        return tuple(part.transpose(1, 2) for part in turned)

    report = diagnose(rotate)
    assert report.healthy
    assert "(b, t, h, d)" in report.finding("axes").words
    assert report.finding("batched positions").verdict == "ok"


def test_rows_of_positions_under_a_name_that_does_not_tell():
    def rotate(x, positions):
        return cases.row_rotation(x, x, positions)[0]

    def optional(x, positions=None):
        return rotate(x, torch.arange(x.shape[2])[None] if positions is None else positions)

    def strict(x, positions):
        return rotate(x, positions) if len(positions) == len(x) else 1 / 0

    for function, form in ((rotate, "(1, t)"), (optional, "(1, t)"), (strict, "(b, t)")):
        report = diagnose(function, order="bhtd")
        assert report.healthy, str(report)
        assert form in report.finding("positions").words
        assert report.finding("batched positions").verdict == "ok"


@pytest.mark.parametrize("heads", [None, 2, 6, 12])
def test_rows_of_positions_do_not_broadcast_against_heads(heads):
    def attend(q, k, v, positions, key_positions):
        q, k = cases.row_rotation(q, q, positions)[0], cases.row_rotation(k, k, key_positions)[1]
        return cases.scaled_attention(q, k, v)

    for function in (attend, cases.row_attention):
        report = diagnose(function, heads=heads)
        assert report.healthy, str(report)
        assert [report.finding(check).verdict for check in ("order", "shift", "decoding")] == ["ok"] * 3


def test_positions_without_a_batch_are_given_so_whatever_they_are_called():
    def flat(x, position_ids):
        angle = position_ids.float()[:, None] * cases.thetas(x.shape[-1])
        return cases.turned(x, angle[None, None])

    def plain(x, position_ids):
        return cases.rotation(x, position_ids) if position_ids.ndim == 1 else 1 / 0

    def third(x, position_ids):
        if position_ids.ndim > 1:
            raise IndexError
        return cases.rotation(x.transpose(1, 2), position_ids).transpose(1, 2)

    for function in (flat, plain, third):
        report = diagnose(function)
        assert (report.kind, report.healthy) == ("rotation", True), str(report)
        assert not [finding for finding in report.findings if finding.check == "positions"]
    assert "(b, t, h, d)" in diagnose(third).finding("axes").words


def test_positions_without_a_batch_are_tried_in_each_order_of_axes_first():
    def third(x, positions):
        return cases.turned(x, (positions[..., None].float() * cases.thetas(x.shape[-1]))[:, None])

    report = diagnose(third)
    assert report.healthy
    assert "(b, t, h, d)" in report.finding("axes").words
    assert not [finding for finding in report.findings if finding.check == "positions"]
    assert "(1, t)" in diagnose(third, order="bhtd").finding("positions").words


def test_a_rotation_of_queries_alone():
    def rotate(q, positions):
        return cases.rotation(q, positions)

    assert diagnose(rotate).kind == "rotation"


def test_a_mask_that_stands_in_for_causality_is_not_taken_for_counted_padding():
    report = diagnose(cases.masked_attention)
    assert report.finding("padding").verdict == "ok"
    assert report.finding("padding").words == "hidden padding on the left leaves the real tokens alone"


def test_the_mask_of_a_whole_block_is_looked_at():
    class Ignores(cases.RowBlock):
        def forward(self, x, position_ids, attention_mask=None):
            return super().forward(x, position_ids)

    assert diagnose(cases.RowBlock).finding("padding").verdict == "ok"
    assert "the mask is ignored" in diagnose(Ignores).finding("padding").words


def test_masks_of_1_and_0_and_a_mask_that_hides_what_is_negative():
    def bert(q, k, v, mask=None):
        seen = torch.ones(len(q), k.shape[2], dtype=torch.long) if mask is None else mask
        return cases.added_mask_attention(q, k, v, torch.tensor([-1e9, 0.0])[seen][:, None, None])

    def negative(q, k, v, mask=None):
        return cases.masked_attention(q, k, v, None if mask is None else mask >= 0)

    for function in (bert, negative):
        report = diagnose(function)
        assert report.healthy, str(report)
        assert report.finding("padding").verdict == "ok"


def test_a_class_that_asks_for_dropout_is_built_without():
    class Drops(cases.AlongTokens):
        def __init__(self, d_model, dropout, p_drop, max_len):
            super().__init__(d_model, max_len)
            self.rests = nn.Sequential(nn.Dropout(dropout), nn.Dropout(p_drop))

    assert diagnose(Drops).healthy


def test_a_class_that_asks_for_more_is_to_be_built_by_the_caller():
    class Configured(nn.Module):
        def __init__(self, config):
            super().__init__()

    with pytest.raises(
        ValueError, match=r"got .*Configured, which asks for config too: build it yourself and pass the"
    ):
        diagnose(Configured)


def test_their_own_error_comes_first():
    def typo(q, k, positions):
        return q * cosine, k  # noqa: F821  # pyright: ignore[reportUndefinedVariable]

    def several(x):
        raise IndexError(f"{x.ndim} axes")

    with pytest.raises(ValueError, match=r"got .*typo, which raises NameError: name 'cosine' is not defined") as caught:
        diagnose(typo)
    assert str(caught.value).index("NameError") < 150
    said = "IndexError: 4 axes when called as a rotation and raises IndexError: 3 axes when called as an attention or a"
    with pytest.raises(ValueError, match=said):
        diagnose(several)


@pytest.mark.parametrize("made", ["angles", "cos and sin", "complex", "stacked", "in one row"])
def test_code_that_makes_angles_is_examined_by_turning_with_them(made):
    class Rotary(nn.Module):
        def __init__(self, base=10_000.0):
            super().__init__()
            self.base = base

        def forward(self, t):
            angle = t[..., None] * cases.thetas(64, self.base)
            return {
                "angles": angle,
                "cos and sin": (torch.cat((angle, angle), -1).cos(), torch.cat((angle, angle), -1).sin()),
                "complex": torch.polar(torch.ones_like(angle), angle),
                "stacked": torch.stack((angle.cos(), angle.sin()), -1),
                "in one row": torch.cat((angle.sin(), angle.cos()), -1),
            }[made]

    report = diagnose(Rotary())
    assert (report.kind, report.healthy) == ("rotation", True), str(report)
    assert "base 10,000" in report.finding("frequencies").words
    assert diagnose(Rotary(100.0)).finding("frequencies").verdict == "ok"  # 100 is what it says


def test_the_measured_number_of_bug_1_is_that_of_the_formula():
    assert diagnose(cases.inverted_table, dim=512).finding("speeds").number == pytest.approx(10_000 ** (510 / 512))


def test_slopes_that_are_off_by_one_start_at_one():
    for heads, count, start in ((None, 4, 0.25), (8, 8, 0.5)):
        finding = diagnose(cases.slopes_from_one, heads=heads).finding("slopes")
        assert f"with {count} heads the slopes start at 1 where ALiBi's start at {start}" in finding.words


@pytest.mark.parametrize("function", [cases.slopes_of_any_heads, cases.bias_of_any_heads])
def test_slopes_are_judged_for_the_heads_asked_for(function):
    assert "with 12 heads" in diagnose(function).finding("other heads").words
    assert not diagnose(function).healthy
    asked = diagnose(function, heads=8)
    assert asked.healthy, str(asked)
    assert asked.finding("other heads").verdict == "note"
    assert "with 12 heads" in asked.finding("other heads").words
    assert "those of ALiBi's authors for 8 heads" in str(asked)
    assert not diagnose(function, heads=12).healthy


@pytest.mark.parametrize(
    ("function", "kind"),
    [
        (cases.rotation, "rotation"),
        (cases.both_one_way, "rotation"),
        (cases.table, "table"),
        (cases.AlongTokens, "table"),
        (cases.slopes, "bias"),
        (cases.bias, "bias"),
        (cases.forward_bias, "bias"),
        (cases.Block, "attention"),
        (cases.scaled_attention, "attention"),
    ],
)
def test_the_kind_is_told(function, kind):
    assert diagnose(function).kind == kind
    assert diagnose(function, kind=kind).kind == kind


# What it takes


def test_nothing_of_the_code_is_changed():
    module = cases.Learns(64)
    before = {name: value.clone() for name, value in module.state_dict().items()}
    diagnose(module.train())
    assert all(torch.equal(value, before[name]) for name, value in module.state_dict().items())
    assert all(p.grad is None for p in module.parameters())
    assert module.training


def test_random_numbers_of_the_caller_stay_as_they_were():
    torch.manual_seed(3)
    diagnose(cases.table)
    drawn = torch.rand(1)
    torch.manual_seed(3)
    assert torch.equal(drawn, torch.rand(1))


def test_the_same_report_each_time():
    assert str(diagnose(cases.Block)) == str(diagnose(cases.Block))


JUNK = [None, 1, "rope", [], torch.zeros(3), NotImplemented]


@pytest.mark.parametrize("junk", JUNK, ids=repr)
def test_what_cannot_be_called_is_refused(junk):
    with pytest.raises(ValueError, match="doctor: function must be"):
        diagnose(junk)


@pytest.mark.parametrize(
    "function", [lambda: 1, lambda a, b: a, lambda x: "a", lambda x: None, print, len, dict, lambda x: 1 / 0, str]
)
def test_what_has_no_known_signature_gets_the_list_of_those_understood(function):
    with pytest.raises(ValueError, match=r"doctor: function must be .*, got .*Understood are .*fn\(q, k, v\)"):
        diagnose(function)


@pytest.mark.parametrize("argument", ["kind", "dim", "heads", "order"])
@pytest.mark.parametrize("junk", ["junk", 0, -1, 2.5, True, [], "", float("nan"), NotImplemented], ids=repr)
def test_junk_in_a_setting(argument, junk):
    with pytest.raises(ValueError, match=f"doctor: {argument} must be .*, got"):
        diagnose(cases.rotation, **{argument: junk})


def test_a_report_puts_what_is_wrong_first():
    report = Report(
        "f", "table", (Finding("a", "ok", "fine"), Finding("b", "wrong", "bad"), Finding("c", "note", "hm"))
    )
    assert [line.split()[0] for line in str(report).splitlines()] == ["f,", "WRONG", "note", "ok"]
    assert "1 thing is wrong" in str(report)
    assert report.finding("b").words == "bad"
    with pytest.raises(ValueError, match="doctor: check must be one of a, b, c, got 'd'"):
        report.finding("d")


def test_a_report_says_in_a_line_what_is_wrong():
    long = Finding("norm", "wrong", "lengths change " * 40)
    report = Report("f", "table", (long, Finding("a", "ok", "fine"), Finding("limit", "wrong", "clipped")))
    assert repr(report).startswith("<f, examined as a table: 2 things are wrong | norm: lengths change lengths")
    assert repr(report).endswith(" ... | limit: clipped>")
    assert len(repr(report)) < 240
    fine = Report("f", "table", (Finding("rows", "ok", "fine"),))
    assert repr(fine) == "<f, examined as a table: nothing wrong found>"
    assert all(
        f" | {n}: leng" in repr(Report("f" * 300, "bias", (*[long._replace(check=str(n))] * 9,))) for n in (1, 9)
    )


def test_a_failed_assertion_in_pytest_says_what_is_wrong(pytester):
    pytester.makepyfile(
        """
        import posenc

        def test_slopes():
            assert posenc.diagnose(lambda heads: [2 ** (-8 * head / heads) for head in range(heads)]).healthy
        """
    )
    said = pytester.runpytest_inprocess("-p", "no:cacheprovider").stdout.str()
    assert "slopes: with 4 heads the slopes start at 1 where ALiBi's start at 0.25: off by one" in said
    assert "has 2^(-8 (k+1) / heads)>.healthy" in said


def test_doctor_and_report_come_from_the_package():
    assert posenc.diagnose is diagnose


# Peers


def test_rotary_embedding_torch_fails_once_it_has_seen_bfloat16():
    library = peer("rotary_embedding_torch")
    report = diagnose(library.RotaryEmbedding(dim=64).rotate_queries_or_keys)
    assert report.finding("layout").words.startswith("interleaved"), str(report)
    assert report.finding("memory").verdict == "wrong"  # its cache keeps positions in the dtype of the first call
    assert report.finding("module cast").verdict == "wrong"


def test_the_modules_of_peers_that_make_angles_are_examined():
    for made in (
        peer("rotary_embedding_torch").RotaryEmbedding(dim=64),
        peer("x_transformers.x_transformers").RotaryEmbedding(64),
        llama().rotary,
    ):
        report = diagnose(made)
        assert "base 10,000" in report.finding("frequencies").words, str(report)
        assert report.finding("module cast").id == "buffers-rounded"


def test_the_sinusoidal_of_x_transformers_rounds_its_positions_in_bfloat16():
    library = peer("x_transformers.x_transformers")
    assert "256 and 257" in diagnose(library.ScaledSinusoidalEmbedding(64)).finding("rounding").words


def llama(**settings):
    library = peer("transformers.models.llama.modeling_llama")
    config = peer("transformers").LlamaConfig(
        hidden_size=256, num_attention_heads=4, head_dim=64, max_position_embeddings=2048, **settings
    )

    class Rotary(nn.Module):
        def __init__(self):
            super().__init__()
            self.rotary = library.LlamaRotaryEmbedding(config)

        def forward(self, q, k, positions):
            positions = positions if positions.ndim == 2 else positions[None]
            return library.apply_rotary_pos_emb(q, k, *self.rotary(q, positions))

    return Rotary()


def test_llama_of_transformers_is_well_until_it_is_cast():
    report = diagnose(llama())
    assert report.finding("layout").words.startswith("half")
    assert "base 10,000" in report.finding("frequencies").words
    wrong = [finding.check for finding in report.findings if finding.verdict == "wrong"]
    assert wrong == ["module cast"], str(report)
    assert "inv_freq" in report.finding("module cast").words


def test_dynamic_ntk_of_transformers_depends_on_the_length():
    scaling = {"rope_type": "dynamic", "factor": 2.0, "rope_theta": 10_000.0}
    assert "dynamic NTK" in diagnose(llama(rope_parameters=scaling)).finding("longer calls").words


# The command line


def run(capsys, monkeypatch, *arguments: str) -> tuple[int, str, str]:
    monkeypatch.setattr(sys, "path", [*sys.path])
    code = main(["doctor", *arguments])
    said = capsys.readouterr()
    return code, said.out, said.err


def test_faulty_code_exits_with_1_and_healthy_code_with_0(capsys, monkeypatch):
    code, out, err = run(capsys, monkeypatch, "tests.doctor.cases:inverted_table")
    assert (code, err) == (1, "")
    said = " ".join(out.split("WRONG")[0].split())
    assert said.startswith("inverted_table, examined as a table (64 channels, interleaved): 1 thing is wrong; of ")
    assert "exponent-inverted: https://" in out
    code, out, err = run(capsys, monkeypatch, "tests.doctor.cases:table")
    assert (code, err) == (0, "")
    assert out.startswith("table, examined as a table (64 channels, interleaved, base 10,000): nothing wrong found;")


def test_settings_of_the_command_line(capsys, monkeypatch):
    asked = "tests.doctor.cases:AlongBatch", "--order", "tbd", "--kind", "table", "--dim", "32", "--heads", "2"
    assert run(capsys, monkeypatch, *asked)[0] == 0


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("table", "doctor: function must be module:function, got table"),
        ("tests.doctor.cases:", "doctor: function must be module:function, got tests.doctor.cases:"),
        (":table", "doctor: function must be module:function, got :table"),
        ("no.such.module:f", "doctor: function must be module:function, got no.such.module:f; No module named 'no'"),
        ("tests.doctor.cases:nobody", "has no attribute 'nobody'"),
        ("tests.doctor.cases:UNSEEN", "doctor: function must be something to call"),
        (
            "posenc.add.learned:resize_grid",
            "doctor: function must be one whose parameters have known names, got weight",
        ),
    ],
)
def test_a_bad_name_gives_one_line(capsys, monkeypatch, name, said):
    code, out, err = run(capsys, monkeypatch, name)
    assert (code, out) == (2, "")
    assert len(err.splitlines()) == 1
    assert said in err


def test_from_a_shell():
    command = [sys.executable, "-m", "posenc", "doctor", "tests.doctor.cases:slopes_from_one"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 1, done.stderr
    assert "off by one" in " ".join(done.stdout.split())


def test_the_attention_and_the_table_of_torch_itself():
    """Compiled code has no signature, and the input of a learned table picks rows."""
    attention = diagnose(nn.functional.scaled_dot_product_attention)
    assert attention.kind == "attention"
    assert attention.healthy
    table = diagnose(nn.Embedding(128, 32))
    assert table.kind == "table"
    assert table.healthy
    assert {found.check: found.verdict for found in table.findings}["rows"] == "ok"


def test_compiled_code_whose_words_name_no_call_is_refused():
    with pytest.raises(ValueError, match=r"got .*as_tensor, whose parameters cannot be read"):
        diagnose(torch.as_tensor)
