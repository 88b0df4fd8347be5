"""Displayed formulas are worked out on the page's own values, and each error in one is found."""

import pytest

from galley.check.counts import counts
from galley.read import formula as formulas
from galley.read.page import parse

CODE = """\
```python
import numpy as np

theta = 100.0 ** (-2 * np.arange(4) / 8)


def encode(p):
    return np.stack([np.sin(p * theta), np.cos(p * theta)], axis=1).ravel()
```
"""


def page(formula: str, comment: str) -> str:
    return f"# Page\n\n{CODE}\n$$\n{formula}\n$$\n\n<!-- formula{comment} -->\n"


TRUE = {
    "a definition": (r"\theta_i = b^{-2i/d}", r"b = 100.0; d = 8; i = 3; \theta_i = theta[i]"),
    "a chain": (
        r"\theta_i = b^{-2i/d} = \exp\!\left(-\frac{2i}{d} \ln b\right)",
        r"b = 100.0; d = 8; i = 3; \theta = theta",
    ),
    "two statements": (
        r"\sin(\alpha+\beta) = \sin\alpha\cos\beta + \cos\alpha\sin\beta, \qquad \cos 2\alpha = 1 - 2\sin^2\alpha .",
        r"\alpha = 0.7; \beta = 1.9",
    ),
    "rows": (
        r"\begin{aligned} K(\Delta) &= \mathrm{PE}(p) \cdot \mathrm{PE}(p + \Delta) \\"
        r" &= \sum_{i=0}^{d/2-1} \cos \theta_i \Delta . \end{aligned}",
        r"d = 8; p = 5; \Delta = 3; any p; spare 1; \theta_i = theta[i]; \mathrm{PE}(p) = encode(p);"
        r" K(\Delta) = encode(7) @ encode(7 + Delta)",
    ),
    "matrices": (
        r"\begin{pmatrix} \sin \theta(p+k) \\ \cos \theta(p+k) \end{pmatrix} = \begin{pmatrix} \cos \theta k &"
        r" \sin \theta k \\ -\sin \theta k & \cos \theta k \end{pmatrix}"
        r"\begin{pmatrix} \sin \theta p \\ \cos \theta p \end{pmatrix}",
        r"\theta = 0.37; p = 5; k = 3",
    ),
    "vectors": (
        r"a_{mn} = \frac{q_m \cdot (k_n + r_{m-n})}{\sqrt d}",
        r"d = 4; q = some(3, 4); k = some(3, 4); r = some(3, 4); m = 2; n = 1; a = q @ (k + r[1]).T / 2",
    ),
    "a sum under a condition": (
        r"y_m = \sum_{n \le m} a_{mn} v_n",
        r"a = some(4, 4); v = some(4, 3); n = range(4); m = 2; y = np.tril(a) @ v",
    ),
    "cases": (
        r"f(x) = \begin{cases} x^2 & x < 2 \\ \min(\lfloor 3x \rfloor, 9) - 1 & x \ge 2 \end{cases}",
        r"spare 1; x in [0.7, 1.9, 2, 2.1, 2.4, 2.8, 5.3]; f(x) = x * x if x < 2 else min(int(3 * x), 9) - 1",
    ),
    "an integral": (r"\int_0^{x} \cos t \, dt = \sin x", r"x = 1.3"),
    "an inequality at its edge": (r"-\tfrac12 \ln p - \tfrac12 \ln(1-p) \;\ge\; \ln 2", r"p in [0.5, 0.3]; tight"),
    "an inequality as a condition": (r"n \le \frac{d}{2}", r"d in [3, 4]; n in [1, 1.6, 2, 2.1, 3]; = 2 * n <= d"),
    "an expression": (r"W \Delta_y + \Delta_x", r"W = 7; \Delta_y = 2; \Delta_x = 3; = 17"),
    "an approximation": (r"\sin x \approx x", r"x = 0.1; within 0.002"),
    "a remark": (r"x_p = 2p \quad\text{for every } p .", r"p in range(3, 6); x_p = p + p"),
    "a name that goes along with a sum": (
        r"z_m = \sum_n w_{mn} r_\Delta",
        r"m = 3; n = 1; n runs range(4); \Delta := m - n; w = some(5, 4); r = some(5); z_m = w[3] @ r[[3, 2, 1, 0]]",
    ),
    "weights": (
        r"\alpha_{mn} = \operatorname*{softmax}_n \frac{q_m \cdot k_n}{\sqrt{d}}",
        r"d = 4; q = some(3, d); k = some(5, d); m = 1; n = 2; n runs range(5);"
        r" a = np.exp(q @ k.T / 2); \alpha = a / a.sum(axis=1, keepdims=True)",
    ),
    "a mean over draws": (
        r"\mathbb{E}\big[(e + u)^\top (e' + v)\big] = u \cdot v",
        r"e = 0; e runs [[1, 2], [-1, -2]]; e' = 0; e' runs [[3, 1], [-3, -1]]; u = some(2); v = some(2)",
    ),
    "a mean over an index": (
        r"c = \mathbb E_\Delta\, e^{\mathrm{i}\Delta}",
        r"\Delta runs range(3); c = (1 + np.exp(1j) + np.exp(2j)) / 3",
    ),
    "a largest of several": (
        r"r = \max_i |h_{i+1} - h_i|",
        r"h = np.array([1.0, 3.5, 0.25, 1.75]); i runs range(3); r = 3.25",
    ),
    "dots": (r"y = a_0 + a_1 + \dots + a_n", r"n = 4; a = some(6); \dots = a[2:4].sum(); y = a[:5].sum()"),
    "a range": (r"s_h = 2^{-h}, \qquad h = 0, \dots, H - 1", r"H = 4; h = range(4); s_h = 0.5**h"),
    "proportions": (r"u_j \propto \frac{1}{j^2}", r"j = np.arange(1, 5); u_j = 3 / j**2; spare 2"),
    "matrices that commute": (
        r"e^{xS} e^{yS} = e^{(x+y)S} \iff S^\top = -S",
        r"x = 0.3; y = 0.8; A = some(3, 3); S = A - A.T",
    ),
    "an inverse and a determinant": (
        r"M^{-1} M = I, \quad \det M = a_0 a_3 - a_1 a_2",
        r"a = some(4); M = a.reshape(2, 2); I = np.eye(2)",
    ),
    "blocks": (
        r"W\,[\,e\,;\,p\,] = \begin{pmatrix} W_1 & W_2 \end{pmatrix}\begin{pmatrix} e \\ p \end{pmatrix}"
        r" = W_1 e + W_2\, p .",
        r"W = some(5, 7); W_1 = W[:, :3]; W_2 = W[:, 3:]; e = some(3); p = some(4)",
    ),
    "an imported function": (r"y = \sqrt2 x", r"from math import hypot; x = 3.5; y = hypot(x, x)"),
    "primes, accents and words": (
        r"b' = \bar x + \text{first} - q^K_i",
        r"b' = 2.5; \bar x = 1.25; \text{first} = 3.0; i = 1; q^K = np.array([0.0, 1.75])",
    ),
}


@pytest.mark.parametrize("name", TRUE)
def test_a_true_formula_passes(project, name):
    formula, comment = TRUE[name]
    assert project.check(page(formula, f": {comment}")) == []


CHANGES = {
    "what goes along with a sum": ("a name that goes along with a sum", "r_\\Delta", "r_n"),
    "a softmax over the other index": ("weights", "softmax}_n", "softmax}_m"),
    "a sign in a mean": ("a mean over draws", "e' + v", "e' - v"),
    "an angle in a mean": ("a mean over an index", r"e^{\mathrm{i}", r"e^{-\mathrm{i}"),
    "a difference of neighbors": ("a largest of several", "{i+1} - h", "{i+1} + h"),
    "the first of some terms": ("dots", "a_0", "2a_0"),
    "the end of a range": ("a range", "H - 1", "H - 2"),
    "a proportion": ("proportions", "j^2", "j^3"),
    "a sign in a matrix's exponent": ("matrices that commute", "(x+y)S", "(x-y)S"),
    "the other side of an equivalence": ("matrices that commute", "= -S", "= S"),
    "an inverse": ("an inverse and a determinant", "^{-1}", "^{2}"),
    "a determinant": ("an inverse and a determinant", "- a_1", "+ a_1"),
    "blocks in the wrong order": ("blocks", "W_1 & W_2", "W_2 & W_1"),
    "a number under a root": ("an imported function", r"\sqrt2", r"\sqrt3"),
    "a sign": ("a chain", r"(-\frac", r"(+\frac"),
    "a sign between terms": ("two statements", r"+ \cos\alpha", r"- \cos\alpha"),
    "a sign in a matrix": ("matrices", r"\\ -\sin", r"\\ \sin"),
    "a sign in an exponent": ("a definition", "^{-2i", "^{2i"),
    "a factor": ("a definition", "-2i", "-3i"),
    "a factor left out": ("two statements", r"1 - 2\sin", r"1 - \sin"),
    "a factor in a row": ("rows", r"\cos \theta_i \Delta", r"2\cos \theta_i \Delta"),
    "an exponent": ("two statements", r"\sin^2", r"\sin^3"),
    "an index": ("a definition", r"b^{-2i/d}", r"b^{-2(i+1)/d}"),
    "an index of what is looked up": ("a chain", r"\theta_i", r"\theta_{i-1}"),
    "rows and columns": ("a sum under a condition", "a_{mn}", "a_{nm}"),
    "a function": ("rows", r"\cos \theta_i", r"\sin \theta_i"),
    "a fraction upside down": ("a chain", r"\frac{2i}{d}", r"\frac{d}{2i}"),
    "the first bound of a sum": ("rows", "i=0", "i=1"),
    "the last bound of a sum": ("rows", "d/2-1", "d/2-2"),
    "a sum's condition": ("a sum under a condition", r"n \le m", "n < m"),
    "a root": ("vectors", r"\sqrt d", "d"),
    "a name": ("vectors", "k_n +", "q_n +"),
    "a case": ("cases", "x < 2", "x < 3"),
    "a floor": ("cases", r"\lfloor 3x \rfloor", r"\lceil 3x \rceil"),
    "the direction of an inequality": ("an inequality as a condition", r"\le", r"\ge"),
    "the strictness of an inequality": ("an inequality as a condition", r"\le", "<"),
    "the direction of a bound": ("an inequality at its edge", r"\ge", r"\le"),
    "a bound": ("an inequality at its edge", r"\ln 2", r"\ln 3"),
    "an end of an integral": ("an integral", r"\int_0", r"\int_1"),
    "a term of an expression": ("an expression", r"\Delta_y + ", r"\Delta_y - "),
    "an approximation": ("an approximation", "x \\approx x", "x \\approx 2x"),
}


@pytest.mark.parametrize("name", CHANGES)
def test_a_changed_formula_fails(project, name):
    true, old, new = CHANGES[name]
    formula, comment = TRUE[true]
    assert formula.count(old) == 1
    assert len(project.check(page(formula.replace(old, new), f": {comment}"))) == 1


COMPLAINTS = {
    "values that hide a sign": (
        r"y = a + \theta b",
        r": \theta = 0; a = 3; b = 2.5; y = 3.0",
        r"would not notice - for + before \theta b",
    ),
    "a value that hides a factor": (r"y = 2^n", r": n = 0; y = 1", "would not notice 3 for 2 in y = pow(2, n)"),
    "a name without a value": (r"y = a + c", ": a = 1.5; y = 2.5", "no value is bound to c"),
    "a name that the page lacks": (r"y = 2 a", ": a = missing; y = 2", "NameError: name 'missing' is not defined"),
    "a wrong shape": (r"y = a + b", ": a = some(3); b = some(4); y = some(3)", "a sum of shapes (3,) and (4,)"),
    "sides of two shapes": (r"y = a", ": a = some(3); y = 2", "a side of shape () stands beside one of shape (3,)"),
    "two vectors in a row": (r"y = a b", ": a = some(3); b = some(3); y = 2", "two vectors stand side by side"),
    "what no reader reads": (
        r"S = \{ n : n < m \}",
        ": S = 3; n = 2; m = 3",
        "bind it otherwise, or confirm it by code: <!-- formula checked: EXPRESSION -->",
    ),
    "a sum over nothing": (r"y = \sum_n a_n", ": a = some(3); n = 2; y = 3", "bind n to the values that the sum goes"),
    "a negative index": (r"y = a_{n-3}", ": a = some(3); n = 2; y = a[-1]", "a subscript of a is negative"),
    "no relation": (r"a + b", ": a = 1.5; b = 2.5", "states no relation; say what it equals: = EXPRESSION"),
    "a loose approximation": (r"y \approx 2 x", ": x = 3.5; y = 7.1; within 2", "would not notice another value of y"),
    "an item that cannot be read": (r"y = 2 x", ": x = 3.5; y", "cannot read 'y'"),
    "a claim for any value": (r"y = p^2", ": p = 3; y = 9; any p", "this holds for some p alone, not for any"),
    "a bound that is never reached": (r"x \le 2 y", ": x = 1.5; y = 2; tight", "should be equal at one of its points"),
    "a bound that is only reached": (r"x \le 2 y", ": x = 3.0; y = 1.5; tight", "and at another not"),
    "a sign behind words": (r"y = 2 x \quad\text{of } N^2", ": x = 3.5; y = 7", "^ stands behind the words 'of'"),
    "what is left of an integral": (
        r"\int_0^{x} \cos t ) + 5 \, dt = \sin x",
        ": x = 1.2",
        "cannot read at ')' after",
    ),
    "what is left of a cell": (
        r"M = \begin{pmatrix} a , 7 \\ b \end{pmatrix}",
        ": a = 1.5; b = 2.5; M = np.array([[a], [b]])",
        "cannot read at ',' after",
    ),
    "what is left of a case": (
        r"y = \begin{cases} 2 x , 3 & x < 2 \\ x & \text{otherwise} \end{cases}",
        ": x = 1.5; y = 3.0",
        "cannot read at ',' after",
    ),
    "a change that is spared in vain": (r"y = 2 x", ": x = 3.5; y = 7; spare 1", "1 changes are spared, and 0 make"),
    "code that denies it": (r"S = \{1\}", " checked {digest}: theta[0] > 1", "theta[0] > 1 gives False"),
    "a digest of another formula": (r"S = \{1\}", " checked abcdef: theta[0] == 1", "this formula changed"),
    "no digest": (r"S = \{1\}", " reason: it names a set", "then write formula reason {digest}:"),
    "no reason": (r"S = \{1\}", " reason {digest}: ", "say behind the colon what stands behind this formula"),
    "a kind that there is not": (r"S = \{1\}", " proved: by hand", "cannot read <!-- formula proved: by hand -->"),
}


@pytest.mark.parametrize("name", COMPLAINTS)
def test_a_binding_that_confirms_nothing_is_refused(project, name):
    formula, comment, complaint = (
        text.replace("{digest}", formulas.digest(COMPLAINTS[name][0])) for text in COMPLAINTS[name]
    )
    first, *_ = project.check(page(formula, comment))
    assert complaint in first
    assert first.startswith("17:")


@pytest.mark.parametrize("kind", ["checked {}: theta[0] == 1", "reason {}: it names a set"])
def test_code_or_a_reason_stands_in_until_the_formula_changes(project, kind):
    comment = " " + kind.format(formulas.digest(r"S=\{1\}"))
    assert project.check(page(r"S = \{1\}", comment)) == []
    assert "this formula changed" in project.check(page(r"S = \{2\}", comment))[0]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("# Page\n\n$$\na = b\n$$\n\nText.\n", "3: no check stands behind this formula: a"),
        ("# Page\n\nText.\n\n<!-- formula: a = 1 -->\n", "5: no displayed formula stands"),
    ],
)
def test_a_formula_without_a_comment_and_a_comment_without_a_formula(project, text, problem):
    assert project.check(text)[0].startswith(problem)


def test_a_formula_in_a_quote_and_a_comment_of_several_lines(project):
    quoted = "> $$\n> y = 2 x\n> $$\n>\n> <!-- formula: x = 3.5;\n> y = 7 -->\n"
    assert project.check(f"# Page\n\n{quoted}") == []
    assert "does not hold" in project.check(f"# Page\n\n{quoted.replace('= 2 x', '= 3 x')}")[0]


def test_a_binding_may_use_what_a_later_block_defines(project):
    text = "# Page\n\n$$\ny = 2 x\n$$\n\n<!-- formula: x = 3.5; y = n -->\n\n```python\nn = 7\n```\n"
    assert project.check(text) == []
    assert "does not hold" in project.check(text.replace("n = 7", "n = 8"))[0]
    assert "ZeroDivisionError" in project.check(text.replace("n = 7", "n = 7 / 0"))[0]
    twice = text.replace("# Page", "# Page\n\n```python\nn = 7\n```")
    assert "n could have two values here" in project.check(twice)[0]


def test_the_kinds_are_counted():
    comments = [": y = 1", " checked 123456: True", " reason 123456: a name", ": x = 2"]
    text = "\n\n".join(f"$$\ny = 1\n$$\n\n<!-- formula{comment} -->" for comment in comments)
    tally = counts(parse(f"# Page\n\n{text}\n"))
    assert (tally["formula"], tally["reason"]) == (3, 1)
