"""The page on inputs that are no text: its table leads to each of its sections, and each of them runs."""

import re

from galley.read.page import parse
from tests.conftest import ROOT
from tests.pages.test_names_page import rows

TEXT = (ROOT / "docs/domains.md").read_text(encoding="utf-8")


def test_the_table_of_inputs_leads_to_sections_that_run():
    page = parse(TEXT)
    starts = [(line, anchor) for line, level, _, anchor in page.headings if level == 2]
    ends = [line for line, _ in starts[1:]] + [len(page.lines) + 1]
    for (start, anchor), end in zip(starts, ends, strict=True):
        blocks = [block for block in page.blocks if block.runs and start < block.line < end]
        assert any("posenc" in block.code or "assert" in block.code for block in blocks), anchor
    places = {place for row in rows(TEXT) for place in re.findall(r"\]\(#([\w-]+)\)", row[0])}
    assert places == {anchor for _, anchor in starts}
