"""The HTML report of a validation: one self-contained page."""

from __future__ import annotations

import html
import json
from string import Template
from typing import TYPE_CHECKING, Any, Final

from tanist.domain.names import iso_time

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

_PAGE: Final = Template("""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>$title</title><style>
:root{color-scheme:light dark}
body{font:15px/1.5 system-ui,sans-serif;max-width:76rem;margin:2rem auto;padding:0 1rem}
table{border-collapse:collapse;width:100%;margin:1rem 0}
th,td{text-align:left;padding:.3rem .6rem;border-bottom:1px solid #8884;vertical-align:top}
code,pre{font:13px ui-monospace,monospace}pre{white-space:pre-wrap;margin:0}
th{white-space:nowrap}.n{text-align:right}
.v{font-weight:600}.EQUAL{color:#1a7f37}.DIFFERENT{color:#c62828}.UNKNOWN{color:#b26a00}
</style></head><body>
<h1>$title</h1>
<p class="v $verdict">$verdict</p><p>$reason</p>
<table>$head</table>
<h2>Partitions</h2>
<table><tr><th>Partition</th><th>Verdict</th><th class="n">Source offsets</th><th class="n">Copy offsets</th>
<th class="n">Records</th><th class="n">MB</th><th>Reason</th></tr>
$partitions</table>
$differences
<h2>Expectations</h2>
<table><tr><th>Expectation</th><th>About</th><th>Met</th><th>Observed</th></tr>
$expectations</table>
</body></html>
""")
_DIFFERENCES: Final = Template("""<h2>First differences</h2>
<table><tr><th>Partition</th><th>Kind</th><th class="n">Source offset</th><th class="n">Copy offset</th>
<th class="n">Offsets</th><th>Detail</th></tr>
$rows</table>""")


def as_page(result: Mapping[str, Any]) -> str:
    """The page for `result`, the JSON that `canonical` writes."""
    head = {
        "mirror": result["mirror"],
        "level": result["level"],
        "as of": iso_time(result["as_of_ms"]),
        "took": f"{result['seconds']:.1f} s",
        "read": f"{result['bytes'] / 1e6:,.0f} MB of both sides, {result['records']:,} records of the source",
        "run": result["run"],
    }
    rows = [_row(_cells(at, each)) for at, each in _differences(result["partitions"])]
    return _PAGE.substitute(
        title=html.escape(f"Validation of {result['mirror']}"),
        verdict=html.escape(result["verdict"]),
        reason=html.escape(result["reason"]),
        head="\n".join(
            f"<tr><th>{html.escape(name)}</th><td>{html.escape(str(v))}</td></tr>" for name, v in head.items()
        ),
        partitions="\n".join(map(_partition, result["partitions"])),
        differences=_DIFFERENCES.substitute(rows="\n".join(rows)) if rows else "",
        expectations="\n".join(map(_expectation, result["expectations"])),
    )


def _differences(partitions: Iterable[Mapping[str, Any]]) -> Iterable[tuple[str, Mapping[str, Any]]]:
    for each in partitions:
        for difference in each["differences"]:
            yield f"{each['topic']}-{each['partition']}", difference


def _cells(at: str, each: Mapping[str, Any]) -> list[object]:
    return [at, each["kind"], each["source"], each["destination"], each["offsets"], each["detail"]]


def _partition(each: Mapping[str, Any]) -> str:
    ours, theirs = each["source"] or {}, each["destination"] or {}
    verdict = html.escape(each["verdict"])
    numbers = (_range(ours), _range(theirs), _number(ours.get("records")), _megabytes(ours, theirs))
    return (
        f"<tr><td>{html.escape(each['topic'])}-{each['partition']}</td><td class='v {verdict}'>{verdict}</td>"
        + "".join(f'<td class="n">{number}</td>' for number in numbers)
        + f"<td>{html.escape(each['reason'])}</td></tr>"
    )


def _range(log: Mapping[str, Any]) -> str:
    return f"{log['from']:,} to {log['until']:,}" if log else ""


def _number(value: int | None) -> str:
    return "" if value is None else f"{value:,}"


def _megabytes(*logs: Mapping[str, Any]) -> str:
    return f"{sum(side.get('bytes', 0) for side in logs) / 1e6:,.1f}"


def _expectation(each: Mapping[str, Any]) -> str:
    observed = json.dumps(each["observed"], ensure_ascii=False)
    return _row([each["expectation"], each["about"], "yes" if each["met"] else "no", observed])


def _row(cells: Iterable[object]) -> str:
    shown = ("" if cell is None else html.escape(str(cell)) for cell in cells)
    return "<tr>" + "".join(f"<td>{cell}</td>" for cell in shown) + "</tr>"
