"""The report as one HTML file that needs nothing else: figures, work, allocation, queues, waits, a Gantt.

Invariant: it is made from the JSON report alone, so that an old report can be drawn again.
"""

from __future__ import annotations

from html import escape

from gosched.sim.cluster.recorder import QUEUE
from gosched.sim.cluster.report import RESOURCES, Json, as_text, duration_text, hours_text
from gosched.sim.cluster.svg import COLOURS, GREY, Bar, bars, gantt, legend, lines, stacked

MOST_ROWS = 160  # of the Gantt
MOST_QUEUES = 8  # with an area of their own; the others share one

_WAITS_S = (0, 10, 60, 600, 3600, 6 * 3600, 86_400, 7 * 86_400)
_WAIT_LABELS = ("none", "< 10 s", "< 1 min", "< 10 min", "< 1 h", "< 6 h", "< 1 day", "< 1 week", "longer")
_RUNS, _EVICTED = COLOURS[0], "#c0392b"
_STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; color: #222831; max-width: 960px; margin: 2em auto; padding: 0 1em }
h1 { font-size: 1.4em } h2 { font-size: 1.1em; margin: 2em 0 0.3em }
pre { background: #f6f7f9; padding: 1em; overflow-x: auto; font-size: 13px; line-height: 1.6 }
td, th { text-align: right; padding: 0.2em 1.2em 0.2em 0; font-weight: normal } th { color: #4a525e }
svg { width: 100%; font: 11px system-ui, sans-serif } svg text { fill: #4a525e }
.legend span { margin-right: 1.4em; white-space: nowrap }
.legend { margin: 0.2em 0; font-size: 13px }
.legend i { display: inline-block; width: 0.8em; height: 0.8em; margin-right: 0.4em }
"""


def page(data: Json) -> str:
    """Return the page of a report, as `report` makes it."""
    title = f"Simulation of {data['inputs']['trace']}"
    said = ", ".join(f"{name} {value}" for name, value in data["inputs"].items() if name not in ("trace", "left_out"))
    sections = [
        f"<h1>{escape(title)}</h1><p>{escape(said)}</p><pre>{escape(as_text(data))}</pre>",
        _work(data),
        _allocation(data),
        _waiting(data),
        _queues(data),
        _waits(data),
        _gantt(data),
    ]
    return (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{escape(title)}</title>'
        f"<style>{_STYLE}</style>{''.join(sections)}</html>\n"
    )


def _work(data: Json) -> str:
    """Return a table of the work; nothing for a report that was made before work was counted."""
    rows = "".join(
        f"<tr><td>{name.upper()}</td>"
        + "".join(f"<td>{hours_text(work[key])}</td>" for key in ("useful_s", "lost_s", "unfinished_s"))
        + f"<td>{work['lost_pct']:.2f} %</td><td>{work['utilisation_pct']:.1f} %</td></tr>"
        for name, work in data["summary"].get("work", {}).items()
    )
    titles = ("hours of", "useful", "lost to evictions", "unfinished", "lost of all work", "useful of the cluster")
    head = "".join(f"<th>{title}</th>" for title in titles)
    return f"<h2>Work</h2><table><tr>{head}</tr>{rows}</table>" if rows else ""


def _allocation(data: Json) -> str:
    series = data["series"]
    shown = [(name, key) for name, key in RESOURCES if series["capacity"][key]]
    columns = [[100 * value / series["capacity"][key] for value in series["columns"][key]] for _, key in shown]
    drawn = lines(columns, series["width_ms"], "in use, %", 100) if series["columns"]["waiting"] else ""
    return f"<h2>Allocation</h2>{legend([name for name, _ in shown])}{drawn}"


def _waiting(data: Json) -> str:
    series = data["series"]
    columns = [series["columns"]["waiting"], series["columns"]["running"]]
    drawn = lines(columns, series["width_ms"], "jobs") if columns[0] else ""
    return f"<h2>Jobs that wait and run</h2>{legend(['waiting', 'running'])}{drawn}"


def _queues(data: Json) -> str:
    """Return the largest queues by what they held, and the rest together."""
    series = data["series"]
    measure = data["summary"]["measure"]
    capacity = series["capacity"]["gpu_millis" if measure == "gpu" else "cpu_millis"] or 1
    ranked = sorted(data["queues"], key=lambda queue: (-queue["share_pct"], queue["name"]))
    if len(ranked) < 2 or not series["columns"]["waiting"]:
        return ""
    columns = {
        queue["name"]: [100 * v / capacity for v in series["columns"][QUEUE + queue["name"]]] for queue in ranked
    }
    names = list(columns)
    if len(names) > MOST_QUEUES:
        rest = [columns.pop(name) for name in names[MOST_QUEUES - 1 :]]
        columns[f"{len(rest)} others"] = [sum(values) for values in zip(*rest, strict=True)]
    drawn = stacked(list(columns.values()), series["width_ms"], f"share of all {measure.upper()}s, %", 100)
    return f"<h2>Shares of the queues</h2>{legend(list(columns))}{drawn}"


def _waits(data: Json) -> str:
    counts = [0] * len(_WAIT_LABELS)
    for job in data["jobs"]:
        if job["start_ms"] is not None:
            wait_s = (job["start_ms"] - job["submit_ms"]) / 1000
            counts[sum(wait_s >= bound for bound in _WAITS_S) if wait_s else 0] += 1
    drawn = bars(counts, _WAIT_LABELS, "time from submission to the first start", "jobs")
    return f"<h2>Waits</h2>{drawn}"


def _gantt(data: Json) -> str:
    """Draw a row for each job; of many, the one of each few that was there for longest."""
    jobs = data["jobs"]
    step = -(-len(jobs) // MOST_ROWS) or 1
    end = data["summary"]["end_ms"]
    chosen = [max(jobs[at : at + step], key=lambda job: _stay(job, end)) for at in range(0, len(jobs), step)]
    drawn = [bar for row, job in enumerate(chosen) for bar in _bars(row, job, end)]
    which = "every job" if step == 1 else f"of each {step} jobs, the one that was there for longest"
    key = legend(["waits", "runs", "runs until it is evicted"], (GREY, _RUNS, _EVICTED))
    return f"<h2>Gantt: {which}</h2>{key}{gantt(drawn, len(chosen), end)}"


def _stay(job: Json, end_ms: int) -> int:
    return int((end_ms if job["end_ms"] is None else job["end_ms"]) - job["submit_ms"])


def _bars(row: int, job: Json, end_ms: int) -> list[Bar]:
    found = []
    waits_from = job["submit_ms"]
    for start, stop, ended_by in job["attempts"]:
        found.append(_bar(row, job, waits_from, start, GREY, "waited"))
        waits_from = end_ms if stop is None else stop
        evicted = ended_by not in ("", "PENDING") and job["state"] != ended_by
        found.append(_bar(row, job, start, waits_from, _EVICTED if evicted else _RUNS, "ran"))
    if job["end_ms"] is None and (not job["attempts"] or job["attempts"][-1][1] is not None):
        found.append(_bar(row, job, waits_from, end_ms, GREY, "waited"))
    return [bar for bar in found if bar.end > bar.begin]


def _bar(row: int, job: Json, begin: int, end: int, colour: str, what: str) -> Bar:
    title = f"{job['name']} {what} for {duration_text((end - begin) / 1000)}"
    return Bar(row=row, begin=begin, end=end, colour=colour, title=title)
