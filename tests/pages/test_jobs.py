"""The page of jobs: each has an answer that runs alone when it is pasted, a check, and a link to its explanation."""

import ast
import contextlib
import io
import json
import re
import shlex
from itertools import pairwise
from pathlib import Path

import pytest
import torch

from galley.read.page import Page, parse
from galley.show.folds import label

PAGE = Path(__file__).parents[2] / "docs/jobs.md"
TEXT = PAGE.read_text(encoding="utf-8")
EXPLAINED = re.compile(r"(?:chapters|museum|reference)/\S+\.(?:md|ipynb)(?:#\S+)?$|labs\.md")
CONFIGURATION = re.compile(r"^```(json|sh)\n(.*?)^```$", re.S | re.M)
LINES = 17  # of an open block at most


def jobs(page: Page) -> dict[str, range]:
    """Return the lines of each job, a heading ###, by its anchor."""
    starts = [(line, level, anchor or title) for line, level, title, anchor in page.headings]
    spans = pairwise([*starts, (len(page.lines) + 1, 1, "")])
    return {name: range(line, end) for (line, level, name), (end, _, _) in spans if level == 3}


def lacking(text: str) -> list[str]:
    """Return what a page of jobs lacks, job by job."""
    page = parse(text)
    spans = jobs(page)
    first = next(line for line, level, _, _ in page.headings if level == 2)
    listed = [link.target[1:] for link in page.links if link.line < first and link.target.startswith("#")]
    wanting = [] if listed == [*spans] else [f"the list on top names {set(listed) ^ {*spans} or 'another order'}"]
    for name, lines in spans.items():
        blocks = [block for block in page.blocks if block.runs and block.line in lines]
        links = [link.target for link in page.links if link.line in lines]
        unfolded = [block for block in blocks if not label(block)]
        lacks = {
            "an open block that runs": not unfolded,
            "an assertion or an output": not any(_checks(block) for block in blocks),
            "a link to where it is explained": not any(EXPLAINED.match(target) for target in links),
            f"blocks of {LINES} lines at most": any(block.code.count("\n") >= LINES for block in unfolded),
        }
        wanting += [f"{name} lacks {what}" for what, is_so in lacks.items() if is_so]
    return wanting


def _checks(block) -> bool:
    return bool(block.output) or any(isinstance(node, ast.Assert) for node in ast.walk(ast.parse(block.code)))


def configurations(text: str) -> list[tuple[str, dict, list[str]]]:
    """Return of each configuration for another program its job, what it says, and the code of the job."""
    page = parse(text)
    result = []
    for name, lines in jobs(page).items():
        code = [block.code for block in page.blocks if block.runs and block.line in lines]
        part = "\n".join(page.lines[lines.start - 1 : lines.stop - 1])
        for language, body in CONFIGURATION.findall(part):
            configs = [json.loads(body)] if language == "json" else [_config(line) for line in _commands(body)]
            result += [(name, config, code) for config in configs]
    return result


def _commands(body: str) -> list[list[str]]:
    return [shlex.split(command) for command in body.replace("\\\n", " ").split("\n\n")]


def _config(command: list[str]) -> dict:
    """Return what the options of vLLM or llama.cpp say, in the words of a config.json."""
    options = dict(pairwise(command))
    if "--hf-overrides" in options:
        return json.loads(options["--hf-overrides"]) | {"max_position_embeddings": int(options["--max-model-len"])}
    rope = {"rope_type": options["--rope-scaling"], "factor": float(options["--rope-scale"])}
    rope["original_max_position_embeddings"] = int(options["--yarn-orig-ctx"])
    return {"rope_parameters": rope, "max_position_embeddings": int(options["-c"])}


def disagreeing(text: str) -> list[str]:
    """Return the jobs whose configuration for another program is not what the code beside it reads."""
    return [name for name, config, code in configurations(text) if not any(_reads(block, config) for block in code)]


def _reads(code: str, config: dict) -> bool:
    """Whether a block hands these `rope_parameters` to from_config; the longest text follows from them."""
    names = _run(code)
    rope = config["rope_parameters"]
    longest = rope["factor"] * rope["original_max_position_embeddings"]
    if "from_config" not in names or config["max_position_embeddings"] != longest:
        return False
    fields = [value for value in names.values() if isinstance(value, dict)]
    fields = [value for value in fields if value.get("max_position_embeddings", longest) == longest]
    return any(rope.items() <= value.get("rope_parameters", value).items() for value in fields)


def _run(code: str) -> dict:
    names = {"__name__": "pasted"}
    with contextlib.redirect_stdout(io.StringIO()), torch.random.fork_rng():
        torch.manual_seed(0)
        exec(compile(code, "pasted", "exec"), names)
    return names


def pasted():
    """Give each open block of a job, to be run alone."""
    page = parse(TEXT)
    for name, lines in jobs(page).items():
        for block in page.blocks:
            if block.runs and block.line in lines and not label(block):
                yield pytest.param(block.code, id=f"{name}:{block.line}")


def test_there_are_twenty_jobs_in_a_few_groups():
    page = parse(TEXT)
    assert len(jobs(page)) >= 20
    assert 4 <= sum(level == 2 for _, level, _, _ in page.headings) <= 6


def test_each_job_has_code_a_check_and_a_link():
    assert lacking(TEXT) == []


def test_each_configuration_is_what_the_code_beside_it_reads():
    assert len(configurations(TEXT)) == 3
    assert disagreeing(TEXT) == []


@pytest.mark.parametrize("code", [*pasted()])
def test_a_block_runs_alone(code):
    """As a reader pastes it: with its own imports, in an empty session."""
    _run(code)


OF_T5 = r"(?=```python\nfrom posenc\.bias\.t5)"
PLANTED = {
    "a link that is gone": (r"\[every call counts from zero\]\(.*?\), and \[chapter 6\.2\]\(.*?\)", "see there"),
    "a link to elsewhere": (r"chapters/2-learned/beyond-the-table\.md#how-do-i-extend", "index.md#how-do-i-extend"),
    "a block that is not run": (OF_T5, "<!-- block: skip -->\n"),
    "a folded block": (OF_T5, "<!-- block: fold -->\n"),
    "a long block": (OF_T5, "```python\n" + 20 * "one = 1\n" + "```\n\n"),
    "a job that is not listed": (r" · \[MLA\]\(#mla\)", ""),
    "a job in another place": (r"#bfloat16\) · \[test a port\]\(#test-a-port", "#test-a-port) · [a port](#bfloat16"),
    "no check": (r"```output\ncounting tokens seen.*?```", ""),
}
CHANGED = {
    "another factor": (r'(```json(?:(?!```).)*?"factor": )4\.0', r"\g<1>8.0"),
    "another base": (r'(--hf-overrides(?:(?!```).)*?"rope_theta": )500000\.0', r"\g<1>10000.0"),
    "another scale": ("--rope-scale 4", "--rope-scale 8"),
    "another length": ("--max-model-len 32768", "--max-model-len 131072"),
    "no original length": ("--yarn-orig-ctx 8192", "--yarn-orig-ctx 32768"),
    "other code": (r'(yarn \|= \{"original_max_position_embeddings": )8192', r"\g<1>4096"),
}


@pytest.mark.parametrize("fault", PLANTED)
def test_a_fault_in_a_job_is_found(fault):
    assert lacking(_planted(*PLANTED[fault]))


@pytest.mark.parametrize("fault", CHANGED)
def test_a_changed_configuration_is_found(fault):
    assert disagreeing(_planted(*CHANGED[fault]))


def _planted(pattern: str, becomes: str) -> str:
    text, count = re.subn(pattern, becomes, TEXT, count=1, flags=re.S)
    assert count == 1
    return text
