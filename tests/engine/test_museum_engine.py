"""The museum's halls are read into entries; its entrance runs again when one of them changes."""

import markdown
import pytest

import museum

ATTRIBUTES = 'rows="M2 E03" tags="rope, long context"'
HALL = """\
# Tables

## The table ends at its length {#past-the-end}

<!-- entry: rows="M2 E03" tags="rope, long context" -->

> **Claim.** "It ends." Met in
> [an issue](https://github.com/someone/some-thing/issues/12). Checked in November 2026.

<!-- block: raises=AssertionError -->
```python
assert 1 > 2, "the last is 1 | 2"
```

```output
AssertionError: the last is 1 | 2
```

See [this](https://github.com/someone/some-thing/pull/13) and [that](https://github.com/other/one/issues/1).

```python
assert 1 < 2
```

### No entry

## Another part

Text.
"""
LINE = '<!-- entry: rows="M2" tags="rope, long context" -->'


def test_an_entry_is_read_with_its_blocks():
    [entry] = museum.entries("tables", HALL)
    assert (entry.hall_title, entry.title, entry.anchor) == ("Tables", "The table ends at its length", "past-the-end")
    assert (entry.rows, entry.tags, entry.kind) == (["M2", "E03"], ["rope", "long context"], "myth")
    assert len(entry.blocks) == 2
    assert entry.failure == "the last is 1 | 2"
    assert entry.quote.startswith("**Claim.** ")
    assert entry.quote.endswith("Checked in November 2026.")
    assert entry.threads == {
        "someone/some-thing": "https://github.com/someone/some-thing/issues/12",
        "other/one": "https://github.com/other/one/issues/1",
    }


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (ATTRIBUTES, 'rows="M2"', r"tables\.md:3: an entry needs"),
        (ATTRIBUTES, 'rows="M2" tags="rope" number="3"', r"tables\.md:3: an entry needs"),
        (ATTRIBUTES, "M2, rope", r"tables\.md:3: an entry needs"),
        (ATTRIBUTES, 'rows="M2', r"tables\.md:3: an entry needs"),
        (" {#past-the-end}", "", r"needs \{#anchor\}"),
    ],
)
def test_an_entry_that_says_too_little_or_too_much_is_refused(old, new, message):
    with pytest.raises(ValueError, match=message):
        museum.entries("tables", HALL.replace(old, new))


def test_halls_are_read_in_the_order_of_a_visit_and_the_entrance_is_none(tmp_path):
    for name in ("zoo", "biases", "order", "index", "bugs-caches"):
        (tmp_path / f"{name}.md").write_text(HALL)
    assert [entry.hall for entry in museum.read(tmp_path)] == ["order", "biases", "bugs-caches", "zoo"]
    assert [entry.kind for entry in museum.read(tmp_path)] == ["myth", "myth", "bug", "myth"]


def test_the_table_survives_markdown():
    entries = museum.entries("bugs-x", HALL.replace("the last is 1 | 2", "`x` | *y* <b> [0.5, 1e-9]"))
    page = markdown.markdown(museum.table(entries), extensions=["tables"])
    assert page.count("<td") == 5
    assert "`x` | *y* &lt;b&gt; [0.5, 1e-9]" in museum.html.unescape(page).replace("<b>", "&lt;b&gt;")
    assert '<a href="bugs-x.md#past-the-end">The table ends at its length</a>' in page
    assert "<td>rope, long context</td>" in page
    assert '<a href="https://github.com/other/one/issues/1">other/one</a>' in page


def test_a_long_message_is_cut_between_words():
    [entry] = museum.entries("tables", HALL.replace("the last is 1 | 2", "word " * 40))
    assert museum.table([entry]).count("word") < 30
    assert "word …</samp>" in museum.table([entry])


def test_the_plan_hangs_a_frame_for_each_entry():
    entries = museum.entries("bugs-x", HALL) * 3
    assert museum.plan(entries).count("<i></i>") == 3
    assert museum.plan(entries).endswith("[Tables](bugs-x.md) 3 bugs")
    assert museum.plan(entries[:1]).endswith(" 1 bug")


def test_an_entry_line_becomes_links_to_the_finder_and_without_its_last_quote_stops_no_build():
    page = markdown.markdown(museum.label(LINE), extensions=["attr_list"])
    assert '<a class="md-tag" href="index.md?tag=rope#find-an-entry">rope</a>' in page
    assert 'href="index.md?tag=long+context#find-an-entry"' in page
    assert page.startswith('<p class="exhibit"')
    assert "exhibit" in museum.label(LINE.replace('context"', "context"))


@pytest.mark.parametrize(("quote", "count"), [("Claim.", 1), ("The bug.", 0)])
def test_the_search_is_told_which_entries_are_myths(quote, count):
    page = markdown.markdown(HALL.replace("Claim.", quote), extensions=["attr_list", "museum"])
    assert page.count('data-search-prefix="Myth: "') == count


def test_a_hall_shows_a_label_for_each_entry_but_not_in_a_fence():
    page = markdown.markdown(
        f"{HALL}\n```text\n{LINE}\n```\n", extensions=["attr_list", "pymdownx.superfences", "museum"]
    )
    assert page.count('class="exhibit"') == 1
    assert page.count("entry:") == page.count("&lt;!-- entry:") == 1
