"""Time the encodings beside other libraries, as multiples of a limit: the least that any code for the task can take.

    python docs/bench/speed.py [--quick] [--sections rope bias attention import] [--json docs/assets/data/speed.json]

One process. Each contestant is first compared with the package's NumPy function in float64, its gradients too; a wrong
one ends the run. Then all take turns, in a new order each round, and medians over the rounds are divided by the
limit's. What a library lets its user make once, such as a table, is made outside the timed region. Whoever has no
limit of its own runs as it is and compiled. A peer that is not installed is left out, and named. Where a GPU is at
hand, the same cases run there too.
"""

import argparse
import json
import warnings
from collections.abc import Callable, Iterator
from functools import cache, partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import timing
import torch
import torch.nn.functional as F
from timing import BOTH, DTYPES, FORWARD, Case, Contestant, gather, with_compiled, with_gradients
from torch import Tensor
from torch.nn.attention.flex_attention import create_block_mask, flex_attention

from posenc.attention import attention
from posenc.bias.alibi import ALiBi, alibi, alibi_slopes
from posenc.bias.t5 import T5, t5
from posenc.fast.alibi import ALiBi as FastALiBi
from posenc.fast.flex import attention_by_flex
from posenc.fast.rope import RoPE as FastRoPE
from posenc.fast.t5 import T5 as FastT5
from posenc.rotate.rope import RoPE, rope

ROTATED = {"prefill": (1, 32, 4096, 128), "batch": (8, 16, 512, 64), "decode": (1, 32, 1, 128)}
LAST = 4000  # where the token of "decode" stands
BIASED = (16, 2048)  # heads, length
ATTENDED = (1, 16, 1024, 64)
IMPORTS = {
    "torch": "torch",
    "posenc": "posenc",
    "posenc, RoPE": "posenc.rotate.rope",
    "posenc, attention": "posenc.attention",
    "rotary-embedding-torch": "rotary_embedding_torch",
    "x-transformers": "x_transformers",
    "transformers, Llama": "transformers.models.llama.modeling_llama",
}

# RoPE: each maker yields names and rotations


class Rotation(NamedTuple):
    """A call (q, k) -> (q, k), the layout of its pairs, and whether it has gradients."""

    turn: Callable[..., Any]
    layout: str
    trains: bool = True


def rope_of_posenc(layout: str, places: Tensor, q: Tensor) -> Iterator[tuple[str, Rotation]]:
    """The package's, plain and fast, with a table made once."""
    for name, cls in (("posenc", RoPE), ("posenc.fast", FastRoPE)):
        module = cls(q.shape[-1], layout=layout)
        yield f"{name}, {layout}", Rotation(partial(turn_both, module, module.table(places)), layout)


def turn_both(module: RoPE, table: tuple[Tensor, Tensor], q: Tensor, k: Tensor) -> tuple[Tensor, Tensor]:
    """Turn queries and keys by a table that was made once."""
    return module.turn(q, table), module.turn(k, table)


def rope_of_transformers(places: Tensor, q: Tensor) -> Iterator[tuple[str, Rotation]]:
    """Llama's function, with the cosines and sines that Llama's module makes once a forward pass."""
    from transformers.models.llama.configuration_llama import LlamaConfig
    from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding, apply_rotary_pos_emb

    cosine, sine = LlamaRotaryEmbedding(LlamaConfig(head_dim=q.shape[-1])).to(q.device)(q, places[None])
    yield "transformers", Rotation(partial(apply_rotary_pos_emb, cos=cosine, sin=sine), "half")


def rope_of_rotary_embedding_torch(places: Tensor, q: Tensor) -> Iterator[tuple[str, Rotation]]:
    """Its module, with the angles in its cache; it takes cosine and sine at each call."""
    from rotary_embedding_torch import RotaryEmbedding

    module, start = RotaryEmbedding(q.shape[-1]).to(q.device), int(places[0])
    module.rotate_queries_or_keys(torch.zeros(1, 1, start + len(places), q.shape[-1], device=q.device))
    turn = partial(module.rotate_queries_or_keys, offset=start)
    yield "rotary-embedding-torch", Rotation(lambda q, k: (turn(q), turn(k)), "interleaved")


def rope_of_x_transformers(places: Tensor, q: Tensor) -> Iterator[tuple[str, Rotation]]:
    """Its function, with the angles of its module; it takes cosine and sine at each call."""
    from x_transformers.x_transformers import RotaryEmbedding, apply_rotary_pos_emb

    angles, _ = RotaryEmbedding(q.shape[-1]).to(q.device)(places)
    turn = partial(apply_rotary_pos_emb, freqs=angles)
    yield "x-transformers", Rotation(lambda q, k: (turn(q), turn(k)), "interleaved")


def rope_of_meta(places: Tensor, q: Tensor) -> Iterator[tuple[str, Rotation]]:
    """The idiom of Meta's Llama: pairs as complex numbers, multiplied in float32."""
    theta = 10_000.0 ** (-torch.arange(0, q.shape[-1], 2, dtype=torch.float64, device=q.device) / q.shape[-1])
    angle = places[:, None] * theta
    by = torch.polar(torch.ones_like(angle), angle).to(torch.complex64)

    def turn(x: Tensor) -> Tensor:
        pairs = torch.view_as_complex(x.float().unflatten(-1, (-1, 2)))
        return torch.view_as_real(pairs * by).flatten(-2).type_as(x)

    yield "complex product", Rotation(lambda q, k: (turn(q), turn(k)), "interleaved")


def rope_in_triton(places: Tensor, q: Tensor) -> Iterator[tuple[str, Rotation]]:
    """A kernel of one pass, forward only: about the best that a GPU can do."""
    if q.device.type == "cuda":
        from rope_kernel import turn

        cos, sin = RoPE(q.shape[-1]).table(places)
        half = q.shape[-1] // 2
        table = torch.cat([cos[0, :, :half], sin[0, :, half:]], dim=-1)
        yield "Triton kernel", Rotation(lambda q, k: (turn(q, table), turn(k, table)), "half", trains=False)


ROTATIONS = {
    "posenc, half": partial(rope_of_posenc, "half"),
    "posenc, interleaved": partial(rope_of_posenc, "interleaved"),
    "transformers": rope_of_transformers,
    "rotary-embedding-torch": rope_of_rotary_embedding_torch,
    "x-transformers": rope_of_x_transformers,
    "complex product": rope_of_meta,
    "Triton kernel": rope_in_triton,
}


def rope_cases(device: str, shapes: dict[str, tuple[int, ...]] = ROTATED) -> Iterator[Case]:
    """Yield the cases of a rotation of queries and keys; a limit copies them, and for training their gradients too."""
    for dtype in DTYPES:
        for name, shape in shapes.items():
            torch._dynamo.reset()
            q, k, *given = (torch.randn(shape).to(device, DTYPES[dtype]) for _ in range(4))
            places = torch.arange(shape[2], device=device) + (LAST if shape[2] == 1 else 0)
            rotations, left_out = gather(ROTATIONS, places, q)
            forward = rope_forward(rotations, places, q, k)
            yield Case("rope", name, dtype, FORWARD, device, "clone", forward, dict(left_out))
            if shape[2] > 1:
                both = rope_forward_and_backward(rotations, places, [q, k], given)
                yield Case("rope", name, dtype, BOTH, device, "clone", both, dict(left_out))


def rope_forward(rotations: dict[str, Rotation], places: Tensor, q: Tensor, k: Tensor) -> dict[str, Contestant]:
    """Return the rotations of q and k, and the limit, a copy into new tensors."""
    wanted = cache(partial(turned, places, [q, k]))
    found = {"clone": Contestant(lambda: (q.clone(), k.clone()))}
    for name, (turn, layout, trains) in rotations.items():
        for each, call in with_compiled(name, turn, trains):
            found[each] = Contestant(partial(call, q, k), partial(wanted, layout))
    return found


def rope_forward_and_backward(
    rotations: dict[str, Rotation], places: Tensor, inputs: list[Tensor], given: list[Tensor]
) -> dict[str, Contestant]:
    """Return the rotations that have gradients, of which each is turned back."""
    leaves = [x.detach().requires_grad_() for x in inputs]
    wanted = cache(lambda layout: [*turned(places, inputs, layout), *turned(-places, given, layout)])
    found = {"clone": Contestant(lambda: [x.clone() for x in (*inputs, *given)])}
    for name, (turn, layout, trains) in rotations.items():
        for each, call in with_compiled(name, turn) if trains else ():
            found[each] = Contestant(partial(with_gradients, call, leaves, given), partial(wanted, layout))
    return found


def turned(places: Tensor, tensors: list[Tensor], layout: str) -> list[Tensor]:
    """Return the tensors turned to their places by the NumPy function, in float64."""
    return [torch.from_numpy(rope(x.double().cpu().numpy(), places.cpu().numpy(), layout=layout)) for x in tensors]


# Biases: each maker yields names and calls that build one


def alibi_of_posenc(heads: int, length: int, device: str) -> Iterator[tuple[str, Callable]]:
    """The package's."""
    yield "posenc", partial(ALiBi(heads), torch.arange(length, device=device))


def alibi_of_x_transformers(heads: int, length: int, device: str) -> Iterator[tuple[str, Callable]]:
    """Its module, whose cache of the last bias is emptied before each call."""
    from x_transformers.x_transformers import AlibiPositionalBias

    module = AlibiPositionalBias(heads).to(device)

    def build() -> Tensor:
        module.register_buffer("bias", None, persistent=False)
        return module(length, length)

    yield "x-transformers", build


def t5_of_posenc(weight: Tensor, length: int) -> Iterator[tuple[str, Callable]]:
    """The package's, plain and fast."""
    for name, cls in (("posenc", T5), ("posenc.fast", FastT5)):
        module = cls(weight.shape[1]).to(weight.device)
        module.weight.data = weight
        yield name, partial(module, torch.arange(length, device=weight.device))


def t5_of_transformers(weight: Tensor, length: int) -> Iterator[tuple[str, Callable]]:
    """The method of T5's attention; what it returns is a transposed view."""
    from transformers.models.t5.configuration_t5 import T5Config
    from transformers.models.t5.modeling_t5 import T5Attention

    config = T5Config(num_heads=weight.shape[1], d_kv=1, d_model=weight.shape[1])
    module = T5Attention(config, has_relative_attention_bias=True).to(weight.device)
    module.relative_attention_bias.weight.data = weight
    yield "transformers", lambda: module.compute_bias(length, length)[0]


def t5_of_x_transformers(weight: Tensor, length: int) -> Iterator[tuple[str, Callable]]:
    """Its module."""
    from x_transformers.x_transformers import RelativePositionBias

    module = RelativePositionBias(scale=1.0, heads=weight.shape[1]).to(weight.device)
    module.relative_attention_bias.weight.data = weight
    yield "x-transformers", partial(module, length, length)


ALIBIS = {"posenc": alibi_of_posenc, "x-transformers": alibi_of_x_transformers}
T5S = {"posenc": t5_of_posenc, "transformers": t5_of_transformers, "x-transformers": t5_of_x_transformers}


def bias_cases(device: str, heads: int = BIASED[0], length: int = BIASED[1]) -> Iterator[Case]:
    """Yield the cases of a bias (h, t, s) that is built anew; the limit fills a tensor of its size with one number."""
    places, weight = np.arange(length), torch.randn(32, heads, device=device)
    references = {"ALiBi": lambda: alibi(places, places, heads), "T5": lambda: t5(places, places, weight.cpu().numpy())}
    for name, makers, given in (("ALiBi", ALIBIS, (heads, length, device)), ("T5", T5S, (weight, length))):
        torch._dynamo.reset()
        builders, left_out = gather(makers, *given)
        found = {"torch.full": Contestant(partial(torch.full, (heads, length, length), 0.5, device=device))}
        wanted = cache(lambda name=name: [torch.from_numpy(references[name]())])
        for builder, build in builders.items():
            found |= {each: Contestant(call, wanted) for each, call in with_compiled(builder, build)}
        yield Case("bias", name, "float32", FORWARD, device, "torch.full", found, left_out)


# Attention


def attention_cases(device: str, shape: tuple[int, ...] = ATTENDED) -> Iterator[Case]:
    """Yield the cases of causal attention with ALiBi; the limit is the same without ALiBi."""
    limit = "SDPA, no bias"
    for dtype in DTYPES:
        torch._dynamo.reset()
        *inputs, given = (torch.randn(shape).to(device, DTYPES[dtype]) for _ in range(4))
        leaves, wanted = [x.detach().requires_grad_() for x in inputs], cache(partial(attended, inputs, given))
        forward, both = {}, {}
        for name, attend in ways_to_attend(inputs[0]).items():
            right, first = (None, None) if name == limit else (wanted, lambda wanted=wanted: wanted()[:1])
            forward[name] = Contestant(partial(attend, *inputs), first)
            both[name] = Contestant(partial(with_gradients, attend, leaves, [given]), right)
        yield Case("attention", "ALiBi", dtype, FORWARD, device, limit, forward, {})
        yield Case("attention", "ALiBi", dtype, BOTH, device, limit, both, {})


def ways_to_attend(q: Tensor) -> dict[str, Callable[..., Tensor]]:
    """Return calls (q, k, v) -> (b, h, t, d) for queries like `q`."""
    (heads, length), attend = q.shape[1:3], F.scaled_dot_product_attention
    places, slopes = torch.arange(length, device=q.device), torch.tensor(alibi_slopes(heads), device=q.device).float()
    bias, ours = ALiBi(heads, causal=True), partial(attention, causal=True)
    seen = create_block_mask(lambda b, h, t, s: t >= s, None, None, length, length, device=q.device.type)
    flex = partial(torch.compile(flex_attention, dynamic=False), block_mask=seen)
    return {
        "SDPA, no bias": partial(attend, is_causal=True),
        **dict(with_compiled("posenc", partial(ours, encoding=ALiBi(heads)))),
        **dict(with_compiled("posenc.fast", partial(ours, encoding=FastALiBi(heads)))),
        "posenc.fast, FlexAttention": partial(attention_by_flex, encoding=ALiBi(heads), causal=True),
        "SDPA, mask at hand": partial(attend, attn_mask=bias(places).to(q.dtype)[None]),
        "SDPA, mask built anew": lambda q, k, v: attend(q, k, v, attn_mask=bias(places).to(q.dtype)[None]),
        "FlexAttention, compiled": partial(flex, score_mod=lambda score, b, h, t, s: score + slopes[h] * (s - t)),
    }


def attended(inputs: list[Tensor], given: Tensor) -> list[Tensor]:
    """Return causal attention with ALiBi and its gradients, in float64 with the NumPy function's bias."""
    places = np.arange(inputs[0].shape[2])
    mask = torch.from_numpy(alibi(places, places, inputs[0].shape[1], causal=True))[None]
    leaves = [x.detach().cpu().double().requires_grad_() for x in inputs]
    with torch.enable_grad():
        made = with_gradients(partial(F.scaled_dot_product_attention, attn_mask=mask), leaves, [given.cpu().double()])
    return [x.detach() for x in made]


CASES = {"rope": rope_cases, "bias": bias_cases, "attention": attention_cases}


def records(sections: list[str], rounds: int) -> Iterator[dict[str, Any]]:
    """Yield each case of the sections as soon as it is timed, on the CPU and on a GPU if there is one."""
    for section in sections:
        if section == "import":
            yield timing.imports(IMPORTS, max(3, rounds // 3))
            continue
        for device in ("cpu", *(("cuda",) if torch.cuda.is_available() else ())):
            torch.manual_seed(0)
            for case in CASES[section](device):
                yield timing.run(case, rounds)


def main() -> None:
    """Time what is asked for, print it, and write it down."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--quick", action="store_true", help="3 rounds: enough to see that it runs")
    parser.add_argument("--sections", nargs="+", choices=[*CASES, "import"], default=[*CASES, "import"])
    parser.add_argument("--json", type=Path, help="write the results to this file")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    torch.set_num_threads(options.threads)
    rounds = min(3, options.rounds) if options.quick else options.rounds
    found = timing.setting(options.threads) | {"rounds": rounds, "cases": []}
    for record in records(options.sections, rounds):
        print(timing.table(record), flush=True)
        found["cases"].append(record)
    if options.json:
        options.json.parent.mkdir(parents=True, exist_ok=True)
        options.json.write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
