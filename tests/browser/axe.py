"""What axe, the checker of accessibility, finds on an open page."""

from typing import Any


def violations(page: Any, where: str = "document", **options: Any) -> list[str]:
    """Run axe on what `where` says, in JavaScript; return the first four places of each rule that is broken."""
    from axe_core_python.base import AXE_SCRIPT

    page.evaluate(AXE_SCRIPT)
    found = page.evaluate(f"(options) => axe.run({where}, options)", {"resultTypes": ["violations"], **options})
    places = [(broken["id"], node) for broken in found["violations"] for node in broken["nodes"][:4]]
    return [f"{page.url} {rule} {node['target'][0]}: {node['failureSummary']}" for rule, node in places]
