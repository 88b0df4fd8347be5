"""What the book's tables share: rounding errors as powers of ten, since their digits are the machine's."""

import math

RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


def power_above(error: float) -> str:
    """Return the least power of ten that is not below `error`, such as "10⁻⁶" for 4e-7; "0", "1" and "NaN" as they are.

    Examples:
        >>> [power_above(error) for error in (4e-7, 1e-6, 0.03, 0.7, 0.0, math.nan)]
        ['10⁻⁶', '10⁻⁶', '10⁻¹', '1', '0', 'NaN']
    """
    if math.isnan(error):
        return "NaN"
    if error == 0:
        return "0"
    exponent = math.ceil(math.log10(error) - 1e-9)  # a power itself, however its logarithm is rounded
    if exponent == 0:
        return "1"
    return "10" + str(exponent).translate(RAISED)
