"""Whole models, layers by name, and the doctor in the tests and scripts of others."""

import json

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from posenc.__main__ import main
from posenc.doctor import diagnose
from posenc.doctor.findings import CAUSES, SITE
from tests.contract.encoding_inputs import ROOT
from tests.doctor import cases
from tests.peers import peer

pytest_plugins = ["pytester"]


class Tiny(nn.Module):
    """A model of two causal layers with RoPE, in steps that a patient may get wrong."""

    def __init__(self, words=50, dim=32, heads=2):
        super().__init__()
        torch.manual_seed(0)
        self.heads = heads
        self.embed, self.read = nn.Embedding(words, dim), nn.Linear(dim, words)
        self.layers = nn.ModuleList(nn.Linear(dim, 3 * dim) for _ in range(2))

    def places(self, ids, past):
        return past + torch.arange(ids.shape[1])

    def seen(self, t, s):
        return torch.ones(t, s, dtype=torch.bool).tril(s - t)

    def forward(self, input_ids, position_ids=None, past_key_values=None):
        past = past_key_values or [None, None]
        behind = 0 if past[0] is None else past[0][0].shape[2]
        places = self.places(input_ids, behind) if position_ids is None else position_ids
        x, kept = self.embed(input_ids), []
        for layer, old in zip(self.layers, past, strict=True):
            q, k, v = (y.unflatten(-1, (self.heads, -1)).transpose(1, 2) for y in layer(x).chunk(3, -1))
            q, k = cases.rotation(q, places), cases.rotation(k, places)
            if old is not None:
                k, v = torch.cat((old[0], k), 2), torch.cat((old[1], v), 2)
            made = F.scaled_dot_product_attention(q, k, v, attn_mask=self.seen(q.shape[2], k.shape[2]))
            x, kept = x + made.transpose(1, 2).flatten(2), [*kept, (k, v)]
        return self.read(x), kept


class CountsFromTheCall(Tiny):
    def places(self, ids, past):
        return torch.arange(ids.shape[1])


class SeesOneAhead(Tiny):
    def seen(self, t, s):
        return torch.ones(t, s, dtype=torch.bool).tril(s - t + 1)


class AlignedWithTheFirst(Tiny):
    def seen(self, t, s):
        return torch.ones(t, s, dtype=torch.bool).tril() if t > 1 else torch.ones(t, s, dtype=torch.bool)


class KnowsTheLength(Tiny):
    def places(self, ids, past):
        return past + torch.arange(ids.shape[1]) * (0.5 if ids.shape[1] > 64 else 1.0)


class AlongTheBatch(Tiny):
    def forward(self, input_ids, position_ids=None, past_key_values=None):
        logits, kept = super().forward(input_ids, position_ids, past_key_values)
        return logits + logits.mean(0, keepdim=True), kept


MODELS = [
    (CountsFromTheCall, "decoding", "offset-ignored"),
    (SeesOneAhead, "future", "future-seen"),
    (AlignedWithTheFirst, "pieces", "cache-wrong"),
    (KnowsTheLength, "longer", "length-dependent"),
    (AlongTheBatch, "batch", "batch-mixed"),
]


def test_a_sound_model():
    report = diagnose(Tiny())
    assert (report.kind, report.healthy) == ("model", True), str(report)
    assert [report.finding(name).verdict for name in ("future", "batch", "decoding", "pieces", "shift")] == ["ok"] * 5


@pytest.mark.parametrize(("cls", "check", "cause"), MODELS)
def test_a_bug_in_a_model(cls, check, cause):
    report = diagnose(cls())
    assert report.finding(check).id == cause, str(report)
    assert not report.healthy


SIZES = {"vocab_size": 99, "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4}
SIZES |= {"max_position_embeddings": 256, "intermediate_size": 96}
GPT = {"vocab_size": 99, "n_embd": 64, "n_layer": 2, "n_head": 4, "n_positions": 256}
FAMILIES = {
    "llama": SIZES | {"num_key_value_heads": 2},
    "qwen3": SIZES | {"num_key_value_heads": 2, "head_dim": 16},
    "gemma2": SIZES | {"num_key_value_heads": 2, "head_dim": 16},
    "gpt_neox": SIZES,
    "gpt2": GPT,
    "gptj": GPT | {"rotary_dim": 8},
    "opt": SIZES | {"ffn_dim": 96, "word_embed_proj_dim": 64},
    "bloom": {"vocab_size": 99, "hidden_size": 64, "n_layer": 2, "n_head": 4},
    "mpt": {"vocab_size": 99, "d_model": 64, "n_layers": 2, "n_heads": 4, "max_seq_len": 256},
    "phi": SIZES,
}


@pytest.mark.parametrize("family", FAMILIES)
def test_a_small_model_of_transformers(family):
    library = peer("transformers")
    torch.manual_seed(0)
    config = library.AutoConfig.for_model(family, **FAMILIES[family])
    report = diagnose(library.AutoModelForCausalLM.from_config(config))
    assert (report.kind, report.healthy) == ("model", True), str(report)
    assert report.finding("decoding").verdict == report.finding("batch").verdict == "ok"


def counts_from_the_call(forward):
    """Count positions from 0 in each call, whatever is cached."""

    def wrong(self, x, position_ids=None, *others, **named):
        here = torch.arange(x.shape[1])[None].expand(x.shape[0], -1)
        return forward(self, x, here, *others, **named)

    return wrong


def turns_queries_only(turn):
    return lambda q, k, *others, **named: (turn(q, k, *others, **named)[0], k)


def puts_new_keys_first(update):
    def wrong(self, keys, values, *others, **named):
        t = keys.shape[2]
        return tuple(kept.roll(t, 2) for kept in update(self, keys, values, *others, **named))

    return wrong


def counts_tokens_of_the_call(forward):
    def wrong(self, mask, past=0, position_ids=None, *others):
        return forward(self, mask, past, torch.arange(position_ids.shape[1])[None].expand_as(position_ids), *others)

    return wrong


def masks_nothing(create):
    return lambda *_, **named: torch.zeros(1, 1, 1, 1)


def forgets_the_minus(_):
    return lambda x: torch.stack((x[..., 1::2], x[..., ::2]), -1).flatten(-2)


def adds_the_mean_of_the_batch(forward):
    def wrong(self, *others, **named):
        made, *more = forward(self, *others, **named)
        return made + made.mean(0, keepdim=True), *more

    return wrong


FAMILY_BUGS = [
    ("llama", "modeling_llama.LlamaRotaryEmbedding.forward", counts_from_the_call, "decoding", "cache-wrong"),
    ("qwen3", "modeling_qwen3.apply_rotary_pos_emb", turns_queries_only, "shift", "absolute"),
    ("gpt_neox", "modeling_gpt_neox.apply_rotary_pos_emb", turns_queries_only, "shift", "absolute"),
    ("phi", "modeling_phi.apply_rotary_pos_emb", turns_queries_only, "shift", "absolute"),
    ("gptj", "modeling_gptj.rotate_every_two", forgets_the_minus, "shift", "absolute"),
    ("gemma2", "cache_utils.DynamicLayer.update", puts_new_keys_first, "pieces", "cache-wrong"),
    ("opt", "modeling_opt.OPTLearnedPositionalEmbedding.forward", counts_tokens_of_the_call, "decoding", "cache-wrong"),
    ("bloom", "modeling_bloom.create_causal_mask", masks_nothing, "future", "future-seen"),
    ("mpt", "modeling_mpt.MptAttention.forward", adds_the_mean_of_the_batch, "batch", "batch-mixed"),
]


@pytest.mark.parametrize(("family", "place", "bug", "check", "cause"), FAMILY_BUGS, ids=[one[0] for one in FAMILY_BUGS])
def test_a_bug_in_a_small_model_of_transformers(family, place, bug, check, cause, monkeypatch):
    library = peer("transformers")
    first, *inner, name = place.split(".")
    owner = peer(f"transformers.{first}" if first == "cache_utils" else f"transformers.models.{family}.{first}")
    for part in inner:
        owner = getattr(owner, part)
    monkeypatch.setattr(owner, name, bug(getattr(owner, name)))
    torch.manual_seed(0)
    config = library.AutoConfig.for_model(family, **FAMILIES[family])
    report = diagnose(library.AutoModelForCausalLM.from_config(config))
    assert (report.finding(check).verdict, report.finding(check).id) == ("wrong", cause), str(report)


LAYERS = """LlamaAttention MistralAttention Qwen3Attention GemmaAttention Gemma2Attention Gemma3Attention PhiAttention
    CohereAttention StableLmAttention GlmAttention Olmo2Attention Starcoder2Attention GraniteAttention GPTNeoXAttention
    GPTJAttention GPT2Attention OPTAttention DeepseekV3Attention"""


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", LAYERS.split())
def test_a_layer_of_transformers_by_name(name):
    peer("transformers")
    report = diagnose(f"transformers:{name}")
    assert (report.kind, report.healthy) == ("attention", True), str(report)
    assert report.finding("cache").verdict == report.finding("padding").verdict == "ok"


@pytest.mark.filterwarnings("ignore")
def test_a_bug_in_a_layer_of_transformers(monkeypatch):
    peer("transformers")
    module = peer("transformers.models.llama.modeling_llama")
    turn = module.apply_rotary_pos_emb
    monkeypatch.setattr(module, "apply_rotary_pos_emb", lambda q, k, cos, sin: (turn(q, k, cos, sin)[0], k))
    report = diagnose("transformers:LlamaAttention")
    assert "one-side" in {finding.id for finding in report.findings if finding.verdict == "wrong"}


# In the tests and scripts of others


@pytest.mark.filterwarnings("ignore:Module already imported")
def test_the_fixture_fails_with_the_report(pytester, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    pytester.makeconftest('pytest_plugins = ["posenc.pytest_fixture"]')
    pytester.makepyfile(
        """
        from posenc import RoPE

        def test_slopes(doctor):
            doctor(lambda heads: [2 ** (-8 * head / heads) for head in range(heads)])

        def test_sound(doctor):
            assert doctor(RoPE(64)).kind == "rotation"
        """
    )
    ran = pytester.runpytest_inprocess("-p", "no:cacheprovider")
    ran.assert_outcomes(passed=1, failed=1)
    said = ran.stdout.str()
    assert "WRONG        slopes: with 4 heads the slopes start at 1" in said
    assert "slopes-wrong: https://" in said


def test_the_report_as_data(capsys):
    assert main(["doctor", "tests.doctor.cases:inverted_table", "--json"]) == 1
    said = json.loads(capsys.readouterr().out)
    assert (said["kind"], said["healthy"]) == ("table", False)
    assert "exponent-inverted" in {finding["id"] for finding in said["findings"]}
    assert said["findings"][0]["page"].startswith(SITE)
    assert said["checks"]["wrong"] == 1


def test_each_cause_has_a_page_that_explains_it():
    for cause, (words, page) in CAUSES.items():
        path, _, anchor = page.partition("#")
        source = ROOT / "docs" / f"{path.rstrip('/')}.md"
        text = source.read_text(encoding="utf-8")
        assert f"{{#{anchor}}}" in text or f"## {anchor.replace('-', ' ')}" in text.lower(), cause
        assert words, cause


def test_each_cause_that_code_names_is_known():
    for path in (ROOT / "posenc" / "doctor").rglob("*.py"):
        for part in path.read_text(encoding="utf-8").split("wrong(\n")[1:] + path.read_text().split('wrong("')[1:]:
            named = part.strip().lstrip('"').partition('"')[0]
            if named and "{" not in named and " " not in named and named.islower() and len(named) < 40:
                assert named in CAUSES, f"{path.name}: {named}"


def test_each_cause_is_one_that_a_check_reports():
    files = [path for path in (ROOT / "posenc" / "doctor").rglob("*.py") if path.stem != "causes"]
    code = "".join(path.read_text(encoding="utf-8") for path in files)
    assert not [cause for cause in CAUSES if f'"{cause}"' not in code]
