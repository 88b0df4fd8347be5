"""The live figure of chapter 6.8: what it says is what softmax and the package say."""

import numpy as np
import pytest

from posenc.rotate.query_scale import position_scale
from tests.browser.live import put

pytestmark = pytest.mark.full


def share(lead, tokens):
    return 1 / (1 + (tokens - 1) * np.exp(-lead))


def test_query_scale(figure):
    crowd, data, said = figure("chapters/6-guide/query-scale/", "query-scale")
    plain = share(data["lead"], data["asked"])
    kind = crowd.get_by_role("combobox")
    for name in data["kinds"]:
        kind.select_option(name)
        c = position_scale(data["asked"] - 1, name, data["trained"], data["strength"])
        scaled = share(c * data["lead"], data["asked"])
        assert f"Among {data['asked']} tokens the word has {plain:.2f} of the weight as the query is" in said()
        assert f"and {scaled:.2f} with {name} which multiplies the query by {c:.2f}." in said()
    kind.select_option("inkling")
    put(crowd, lead_in_logits=4.5, strength=0.22)
    c = position_scale(data["asked"] - 1, "inkling", data["trained"], 0.22)
    assert f"and {share(4.5 * c, data['asked']):.2f} with inkling which multiplies the query by {c:.2f}." in said()
    kind.select_option("logn")
    crowd.get_by_role("slider", name="strength").wait_for(state="hidden")  # at the next frame
    crowd.get_by_role("button", name=f"{plain:.2f}").click()
    assert said() == f"Among {data['asked']} tokens the word has {plain:.2f} of the weight."
