"""The four maps of rounded numbers: what the figure says is what torch computes."""

import pytest
import torch

from posenc.rotate.rope import RoPE
from tests.browser.live import put
from tests.scripts.test_sites import NAMES, hands

pytestmark = pytest.mark.full

PAGE, LAST = "chapters/6-guide/precision/", 2**20


def moved(site: str, dtype: torch.dtype, position: float, back: int | None, base: float) -> str:
    """The error of a logit in the column of the position, as the figure writes it."""
    column = int(60 * torch.tensor(position).double().log2() / 20)
    m = torch.tensor([LAST ** ((column + (s + 0.5) / 3) / 60) for s in range(3)], dtype=torch.float64).round()
    n = 0 * m if back is None else m - back
    theta = torch.tensor(RoPE(128, base=base).theta, dtype=torch.float64)
    turned = hands(m, theta, site, dtype) * hands(n, theta, site, dtype).conj()
    off = (turned - torch.exp(1j * (m - n)[:, None] * theta)).abs().square().mean().sqrt().item()
    if off != off:
        return "no number"
    return "nothing" if off < 1e-9 else "under 0.001" if off < 1e-3 else f"{off:#.2g}"


def test_rounding_sites(figure):
    sites, data, said = figure(PAGE, "rounding-sites")
    assert (data["last"], data["place"], data["base"]) == (LAST, 10_001, 10_000)

    def errors(*state) -> str:
        return ", ".join(f"{site} {moved(site, *state)}" for site in NAMES).replace(",", "")

    assert errors(torch.bfloat16, 10_001, None, 1e4) in said()
    assert "Near position 10001 with a key at place 0" in said()
    sites.get_by_role("button", name="frequency").click()
    assert errors(torch.bfloat16, 10_001, 5, 1e4) in said()
    reply = sites.locator(".stage-predict [role=status]").inner_text()
    assert reply.startswith("Yes")
    assert f"position by {moved('position', torch.bfloat16, 10_001, 5, 1e4)}" in reply
    sites.get_by_role("button", name="angle").click()
    assert sites.locator(".stage-predict [role=status]").inner_text().startswith("No")
    put(sites, base=300, position=325)  # steps of 400, on logarithms
    sites.get_by_role("radio", name="float32").check()
    sites.get_by_role("radio", name="5,555 back").check()
    place = LAST ** (325 / 400)
    assert f"Near position {place:.0f} with a key 5555 back" in said()
    assert errors(torch.float32, place, 5555, 1e5) in said()
    sites.get_by_role("radio", name="float16", exact=True).check()
    put(sites, position=380)
    assert errors(torch.float16, LAST ** (380 / 400), 5555, 1e5) in said()
    assert "position no number" in said()
    put(sites, position=200)
    assert said() == "Near position 1024 no key stands 5555 back."
