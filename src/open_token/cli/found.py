"""What redaction found, told as a table or as a report for scripts; neither holds a value."""

from pathlib import Path
from typing import Any, NamedTuple

from open_token.cli.console import Console, as_json, columns_of, cut, plural, table, visible
from open_token.passes.findings import Finding, Place, short, told_as_json
from open_token.storage.files import whole_file


class Found(NamedTuple):
    """The finds of one source, and what a person decided on each, if one was asked."""

    source: str
    level: str
    findings: list[Finding]
    decisions: list[str] | None = None

    @property
    def report(self) -> dict[str, Any]:
        """All that may be said of them."""
        told = told_as_json(self.findings)
        for item, decision in zip(told, self.decisions or (), strict=False):
            item["decision"] = decision
        return {
            "schema": "open-token/redaction-report/1",
            "source": self.source,
            "level": self.level,
            "count": sum(finding.count for finding in self.findings),
            "findings": told,
        }


def tell_report(found: list[Found], target: str, console: Console) -> None:
    """The report as JSON, into a file or with - to stdout; of several sources a list of reports."""
    reports = [item.report for item in found]
    total = sum(report["count"] for report in reports)
    several = {"schema": "open-token/redaction-reports/1", "count": total, "reports": reports}
    told = reports[0] if len(reports) == 1 else several
    if target == "-":
        console.json(told)
        return
    with whole_file(Path(target)) as out:
        out.write(as_json(told))
    console.say(f"report  {visible(target)}  (no value is in it)")


def tell_check(found: list[Found], console: Console, *, has_table: bool) -> int:
    """A row for each value, and how many there are; the exit code of --check."""
    values = sum(len(item.findings) for item in found)
    total = sum(finding.count for item in found for finding in item.findings)
    level = found[0].level
    of_files = f" of {len(found):,} files" if len(found) > 1 else ""
    if not values:
        console.say(f"clean   nothing{of_files} would be masked at level {level}")
        return 0
    if has_table:
        rows = [row for item in found for row in _rows(item, is_named=len(found) > 1)]
        table(("TYPE", "RULE", "TIMES", "FIRST PLACE"), rows, console)
    console.say(
        f"{plural(values, 'value')} in {plural(total, 'place')}{of_files} would be masked at level {level}"
    )
    return 1


def _rows(found: Found, *, is_named: bool) -> list[tuple[str, ...]]:
    name = f"{visible(found.source)}: " if is_named else ""
    return [
        (
            finding.type,
            finding.rule,
            str(finding.count),
            f"{name}{visible(short(finding.places[0].where))}",
        )
        for finding in found.findings
    ]


def words_around(place: Place, columns: int) -> tuple[str, str]:
    """The words on both sides of a value, as many as fit into so many columns; what one side
    leaves, the other has."""
    before, after = visible(place.before), visible(place.after)
    left = max(columns // 2, columns - columns_of(after))
    right = max(columns // 2, columns - columns_of(before))
    return cut(before[::-1], left)[::-1], cut(after, right)
