"""Write what was measured, from ``benchmarks/results``, and tables that the code holds into README and docs.

Both stand between two marks on a page.

python benchmarks/readme.py
"""

from __future__ import annotations

import csv
import json
import math
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import typer

from conebandit.cli import app
from conebandit.kernels.cone_kernel.constants import BEHAVIOUR, ROLES, TABLE
from conebandit.studies.bench import CONTENDERS

ROOT = Path(__file__).resolve().parent.parent
START, END = "<!-- written by benchmarks/readme.py -->", "<!-- end -->"


def results(name: str) -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads((ROOT / "benchmarks" / "results" / f"{name}.json").read_text())
    return loaded


def paragraph() -> str:
    """The bullet points."""
    return "\n".join([learning(), policies(), geometry(), speed(), monitor(), service()])


def learning() -> str:
    board = results("leaderboard")
    ratio = {name: pair["geometric mean"] for name, pair in board["summary"].items()}
    tasks, rivals = len(board["comparisons"]), sum(contender.baseline for contender in CONTENDERS)
    wins = sum(comparison["score"] < 1 for comparison in board["comparisons"])
    return (
        f"* **It learns.** Over {tasks} environments the default policy has {ratio['score']:.2f} times the score, "
        f"{ratio['report']:.2f} times the\n  report error and {ratio['play']:.2f} times the play regret of the "
        f"best of {rivals} baselines *of each environment*, their\n  constants tuned (geometric means; better in "
        f"{wins} of {tasks}), and {ratio['play_to_printed']:.3f} times the play regret of the printed\n  algorithm "
        f"([leaderboard](docs/leaderboard.md)).\n{unseen()}"
    )


def unseen_ratios() -> tuple[dict[str, float], float, float]:
    """Ratios of scores in the kinds of benchmarks/unseen.py, by name; their geometric mean, and the worst."""
    ratios = {row["task"]: float(row["score_ratio"]) for row in results("unseen")["rows"]}
    return ratios, ratios.pop("geometric mean"), ratios.pop("worst")


def unseen() -> str:
    ratios, mean, worst = unseen_ratios()
    wins = sum(ratio < 1 for ratio in ratios.values())
    return (
        f"* **Also elsewhere.** In {len(ratios)} kinds of environments that nothing was tuned on, it has {mean:.2f} "
        f"times the score of the best\n  rival of each kind in hindsight (better in {wins}; {worst:.2f} at worst; "
        "[which](benchmarks/results/unseen.md))."
    )


def geometry() -> str:
    rows = results("geometry")["rows"]
    ratios = [r["to_moocore"] for r in rows if r["cone"] == "orthant" and "to_moocore" in r]
    batch = {(r["task"], r["cone"]): r["milliseconds"] for r in rows if r["input"].startswith("batch")}
    return (
        f"* `pareto_mask` takes {min(ratios):.2f} to {max(ratios):.2f} times as long as moocore (C) over {len(ratios)} "
        "inputs (N up to 100,000,\n  M = 2, 3, 5, easy and hard), and works for every cone.\n"
        f"* 100,000 sets of ten arms: fronts in {batch['pareto_mask', 'orthant']:.0f} ms, their gaps in "
        f"{batch['gap', 'orthant']:.0f} ms ({batch['gap', 'narrow']:.0f} ms under a narrow cone)."
    )


def speed() -> str:
    ours = [r for r in results("speed")["rows"] if r["contender"].startswith("conebandit")]
    steps, loops, full = (
        [r["microseconds"] for r in ours if r["task"] == task]
        for task in ("step by step", "compiled loop", "simulate in full")
    )
    ratios = [1 / r["ratio"] for r in ours if r["task"].startswith("step by step, to")]
    return (
        f"* A round of the paper's own policy (10 arms, 2 metrics) takes at most {max(steps):.1f} microseconds step "
        f"by step, {max(loops):.1f} in the\n  compiled loop and {max(full):.1f} with environment and regret: "
        f"{min(ratios):.0f} to {max(ratios):.0f} times as fast as the fastest of Vowpal\n  Wabbit, river and MABWiser, "
        "and flat over a million rounds."
    )


def policies() -> str:
    """The speed of the default policy, and of the tree for those to whom that is too slow."""
    rows = results("policies")["rows"]
    took = {
        (name, task): [r["microseconds"] for r in rows if r["policy"] == name and r["task"] == task]
        for name in ("tree, adaptive", "kernel")
        for task in ("simulate", "step by step")
    }
    steps, rounds = took["kernel", "step by step"], took["kernel", "simulate"]
    return (
        f"* **It is fast.** A decision and its observation by the default policy (10 arms, 2 metrics) take "
        f"{min(steps):.0f} to {max(steps):.0f} microseconds,\n  by the number of features it needs; a round in "
        f"`simulate`, with environment and regret, {min(rounds):.0f} to {max(rounds):.0f}. The adaptive tree takes\n  "
        f"{max(took['tree, adaptive', 'step by step']):.0f} and {max(took['tree, adaptive', 'simulate']):.0f} at most "
        "([all rows](benchmarks/results/policies.md))."
    )


def monitor() -> str:
    rows = results("shift")["rows"]
    alarms = [r for r in rows if "false_alarms" in r]
    cost = max(r["microseconds"] for r in rows if r["part"] == "cost")
    return (
        f"* The shift monitor raised a false alarm in at most {100 * max(r['false_alarms'] for r in alarms):.1f} % of "
        f"{alarms[0]['streams']} stationary streams of {alarms[0]['rounds']:,} contexts, and\n  costs at most "
        f"{cost:.1f} microseconds a context on a quiet core ([delays](benchmarks/results/shift.md))."
    )


def service() -> str:
    ratios = " and ".join(f"{run['ratio']:.2f} ({run['store']})" for run in results("service")["load"])
    page = (ROOT / "benchmarks" / "results" / "crash.md").read_text()
    found = dict(re.findall(r"^\| ([^|]+) \| (.+) \|$", page, re.M))
    kills, lost, twice = (sum(map(int, found[row].split(" | "))) for row in ("times", "lost", "there twice"))
    return (
        f"* With `ConeTree` the service decides {ratios} times as often as a bare endpoint that commits\n  one row "
        f"([load, reading, memory](benchmarks/results/service.md)). Of what it had acknowledged, {kills} kills of "
        f"service or database\n  lost {lost} events and doubled {twice} ([kills](benchmarks/results/crash.md))."
    )


def evidence() -> str:
    """The table of docs/which-policy.md: mean and worst ratios, and the default beside the tree."""
    board = results("leaderboard")
    lines = [
        "| default policy to the best baseline of each environment | geometric mean | worst |",
        "| --- | --- | --- |",
    ]
    for name, label in (
        ("score", "score"),
        ("report", "error of the report, shortfall + front"),
        ("coverage", "coverage"),
        ("play", "play, among baselines whose report error is at most twice as large"),
    ):
        pair = board["summary"][name]
        lines.append(f"| {label} | {pair['geometric mean']:.2f} | {pair['worst']:.2f} |")
    lost = [r["lost"] for r in board["runs"] if r["policy"] == "default"]
    tree = geometric_ratio(board["standings"], "tree-adaptive")
    lines += [
        "",
        f"Front arms lost by the default policy: {100 * sum(lost) / len(lost):.2f} % on average. The adaptive tree has "
        f"{tree:.2f} times the default's score.",
        "",
        elsewhere(),
        "",
        lead_on_trials(),
    ]
    return "\n".join(lines)


def real_trials() -> str:
    """The table of docs/leaderboard-trials.md: every policy in every trial, the best one after the change first."""
    rows = sorted(results("real_trials")["rows"], key=lambda row: float(row["after"]))
    lines = [
        "| trial | policy | score before | score after | play after | report after |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    for trial in sorted({row["trial"] for row in rows}):
        for row in rows:
            if row["trial"] == trial:
                scores = [f"{row[part]:.4f} ± {row[f'se {part}']:.4f}" for part in ("before", "after")]
                parts = [f"{row[name]:.4f}" for name in ("play after", "report after")]
                lines.append(f"| {' | '.join([trial, row['policy'], *scores, *parts])} |")
    return "\n".join(lines)


def lead_on_trials() -> str:
    """One sentence about them, for docs/which-policy.md."""
    found = results("real_trials")["rows"]
    ratios = []
    for trial in dict.fromkeys(row["trial"] for row in found):
        scores = {row["policy"]: float(row["after"]) for row in found if row["trial"] == trial}
        best = min(score for name, score in scores.items() if name not in ("default", "oracle", "trial"))
        ratios.append(f"{scores['default'] / best:.2f} ({trial})")
    return (
        "On patients and families of real trials, after the population has changed, its score is "
        f"{', '.join(ratios)}\ntimes that of the best other policy ([every policy](leaderboard-trials.md))."
    )


def elsewhere() -> str:
    """What benchmarks/unseen.py found."""
    ratios, mean, worst = unseen_ratios()
    hardest = max(ratios, key=lambda task: ratios[task])
    return (
        f"In {len(ratios)} kinds of environments that nothing was tuned on (by `python benchmarks/unseen.py`; "
        "[which](../benchmarks/results/unseen.md)),\nthe ratio of scores to the best rival of each kind in hindsight "
        f"is {mean:.2f} in the geometric mean and {worst:.2f} at worst (`{hardest}`)."
    )


def geometric_ratio(standings: list[dict[str, Any]], policy: str) -> float:
    """Score of a policy to the default's, geometric mean over environments."""
    score = {(standing["task"], standing["policy"]): standing["mean"]["score"] for standing in standings}
    tasks = dict.fromkeys(task for task, _ in score)
    return math.exp(sum(math.log(score[task, policy] / score[task, "default"]) for task in tasks) / len(tasks))


def kernel_constants() -> str:
    """The table of docs/kernel.md."""
    rows = [f"| `{row.name}` | {row.value} | {row.meaning} | {row.origin} |" for row in TABLE]
    return "\n".join(["| constant | value | meaning | origin |", "| --- | --- | --- | --- |", *rows])


def turned_constants() -> str:
    """The tables of docs/constants.md: what decides on behaviour, and then everything else by its role."""
    known = (ROOT / "benchmarks" / "results" / "constants.json").exists()
    measured = {row["constant"]: row for row in results("constants")["rows"]} if known else {}
    mine = [row for row in TABLE if row.role == BEHAVIOUR]
    lines = [f"## {len(mine)} constants that decide on behaviour", ""]
    if measured:
        some = next(iter(measured.values()))
        every = "[all rows](../benchmarks/results/constants.md)"
        lines += [f"{some['runs']} runs of at most {some['rounds']:,} rounds; {every}.", ""]
    lines += ["| constant | value | meaning | score at half | score at double |", "| --- | --- | --- | --- | --- |"]
    for row in mine:
        half, double = (_turned(measured.get(row.name), word) for word in ("half", "double"))
        lines.append(f"| `{row.name}` | {row.value} | {row.meaning} | {half} | {double} |")
    others = [row for row in TABLE if row.is_turned and row.role != BEHAVIOUR]
    lines += [
        "",
        f"## {len(others)} more that were turned: no effect beyond two errors, so their role is another one",
        "",
    ]
    lines += ["| constant | value | role | score at half | score at double |", "| --- | --- | --- | --- | --- |"]
    for row in others:
        half, double = (_turned(measured.get(row.name), word) for word in ("half", "double"))
        lines.append(f"| `{row.name}` | {row.value} | {row.role} | {half} | {double} |")
    for role, about in ROLES.items():
        others = [row for row in TABLE if row.role == role]
        lines += ["", f"## {len(others)} {about}", "", "| constant | value | meaning |", "| --- | --- | --- |"]
        lines += [f"| `{row.name}` | {row.value} | {row.meaning} |" for row in others]
    return "\n".join(lines)


def _turned(row: dict[str, Any] | None, word: str) -> str:
    """A ratio of scores and its error; that nothing changed is said in words."""
    if row is None:
        return "not measured"
    if row[f"{word} same"] == 1.0:
        return "the same decisions"
    return f"{row[word]:.2f} ± {row[word] * row[f'{word} noise']:.2f}"


def streams() -> str:
    """The table of docs/shift.md: false alarms and delays on streams of dependent contexts, and pairs."""
    rows = results("shift_streams")["rows"]
    delay = {(r["part"].removeprefix("delays "), r["way"]): r for r in rows if r["part"].startswith("delays ")}
    alarms = [r | {"kind": r["part"].removeprefix("alarms ")} for r in rows if r["part"].startswith("alarms ")]
    lines = ["| stream | block | false alarms | of | mean delay, contexts |", "| --- | --- | --- | --- | --- |"]
    for row in alarms:
        found = delay.get((row["kind"], row["way"]))
        late = f"{found['delay']:,.0f}" if found else ""
        lines.append(f"| {row['kind']} | {row['way']} | {row['false_alarms']:.1%} | {row['streams']:,} | {late} |")
    missed = [f"{row['kind']} with {row['way']}" for row in alarms if not row.get("reached", True)]
    beyond = f" Above 1 %: {', '.join(missed)}." if missed else ""
    pairs = [r for r in rows if r["part"].startswith("pairs ")]
    found_pairs = "; ".join(
        f"to {r['part'].removeprefix('pairs ')}: in {r['found']:.0%} of {r['streams']} streams, after "
        f"{r['delay']:,.0f} contexts on average"
        for r in pairs
    )
    return "\n".join(
        [
            "**Measured** (`python benchmarks/shift_streams.py` says what these streams are; "
            "[all rows](../benchmarks/results/shift_streams.md)), alpha = 1 %, "
            f"{alarms[0]['rounds']:,} contexts each.{beyond}",
            "",
            *lines,
            "",
            f"One pair of ten coordinates that becomes correlated, found within 4,000 contexts: {found_pairs}.",
        ]
    )


TRIAL_DESIGNS = {
    "boin12": "BOIN12",
    "efftox": "EffTox",
    "uniform": "uniform",
    "default": "default",
    "linear(explore=0.0)": "linear",
}


def trial_designs() -> str:
    """How often designs find the best dose, and how many patients they harm: benchmarks/results/trial_designs/."""
    tables = []
    for name, measure, scale, words in (
        ("recommendations", "best", 100.0, "best, %"),
        ("patients", "toxic", 1.0, "patients with toxicity"),
    ):
        with (ROOT / "benchmarks" / "results" / "trial_designs" / f"{name}.csv").open(encoding="utf-8") as file:
            rows = [row for row in csv.DictReader(file) if row["measure"] == measure]
        size, trials = min(int(row["patients"]) for row in rows), max(int(row["trials"]) for row in rows)
        cells = {
            (row["scenario"], row["design"]): f"{scale * float(row['mean']):.1f} ({scale * float(row['error']):.1f})"
            for row in rows
            if int(row["patients"]) == size
        }
        tables += [
            f"{words[0].upper()}{words[1:]}, with {size} patients, averages over {trials} trials (standard errors):",
            "",
            f"| scenario | {' | '.join(TRIAL_DESIGNS.values())} |",
            f"| --- |{' --- |' * len(TRIAL_DESIGNS)}",
        ]
        for scenario in dict.fromkeys(scenario for scenario, _ in cells):
            tables.append(f"| {scenario} | {' | '.join(cells[scenario, design] for design in TRIAL_DESIGNS)} |")
        tables.append("")
    return "\n".join(["", *tables, *_published_trials(), *_printed_trials()])


def _published_trials() -> list[str]:
    """EffTox beside published operating characteristics: benchmarks/results/trial_published.json."""
    rows = json.loads((ROOT / "benchmarks" / "results" / "trial_published.json").read_text())["rows"]
    doses = list(dict.fromkeys(row["dose"] for row in rows))
    lines = [
        "EffTox beside 5,000 published trials of 60 patients in each scenario: percent in which a dose is recommended, "
        "ours / theirs:",
        "",
        f"| scenario | {' | '.join('none' if dose == 'none' else f'dose {dose}' for dose in doses)} |",
        f"| --- |{' --- |' * len(doses)}",
    ]
    for scenario in dict.fromkeys(row["scenario"] for row in rows):
        cells = [
            f"{row['selected_percent']:.1f} / {row['published_percent']:.1f}"
            for row in rows
            if row["scenario"] == scenario
        ]
        lines.append(f"| {scenario} | {' | '.join(cells)} |")
    errors = [abs(row[name]) for row in rows for name in ("errors", "errors_of_patients") if name in row]
    within = sum(error <= 2.0 for error in errors)
    return [
        *lines,
        "",
        f"Of {len(errors)} figures, these and the patients under each dose, {within} are within two standard errors; "
        f"the largest difference is {max(errors):.1f} of them. Made by `python benchmarks/trial_published.py`.",
        "",
    ]


def _printed_trials() -> list[str]:
    """BOIN12 beside what its authors' application has printed: benchmarks/results/trial_application*.json."""
    results = ROOT / "benchmarks" / "results"
    rows, scenarios = (
        json.loads((results / f"trial_application{name}.json").read_text())["rows"] for name in ("", "_scenarios")
    )
    ends = [name for name in scenarios[0] if name.startswith("selected ") or name == "none"]
    lines = [
        "BOIN12 beside 1,000 trials of its authors' application in each of 37 scenarios, with limits of 0.3 and 0.2; "
        "mean squares of differences, in standard errors, are 1 if nothing but chance is between the two:",
        "",
        "| patients | `futile` | settings | figures | within two errors | largest | mean square, selected | patients |",
        "| --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for row in rows:
        measured = (row[name] for name in ("largest", "mean_square_selected", "mean_square_patients"))
        counted = f"{row['figures']} | {row['within_two']}"
        lines.append(
            f"| {row['patients']} | {row['futile']} | {row['way']} | {counted} | "
            f"{' | '.join(f'{value:g}' for value in measured)} |"
        )
    size, shown = max(row["patients"] for row in scenarios), 6
    lines += [
        "",
        f"The first {shown} of these scenarios with {size} patients and the settings of the application: percent in "
        "which a dose is selected, ours / theirs:",
        "",
        f"| scenario | {' | '.join(name.replace('selected', 'dose') for name in ends)} |",
        f"| --- |{' --- |' * len(ends)}",
    ]
    for row in [row for row in scenarios if row["patients"] == size][:shown]:
        lines.append(f"| {row['scenario']} | {' | '.join(row[name] for name in ends)} |")
    return [*lines, "", "Made by `python benchmarks/trial_application.py`.", "", *_reviewed_trials()]


def _reviewed_trials() -> list[str]:
    """BOIN12 beside a review of designs: benchmarks/results/trial_review.json."""
    rows = json.loads((ROOT / "benchmarks" / "results" / "trial_review.json").read_text())["rows"]
    words = {
        "patients_at_best": "patients at the best dose",
        "stopped": "trials that end without a dose",
        "overdosed": "patients overdosed",
        "few_at_best": "trials with few at the best dose",
        "best_selected": "best dose selected",
    }
    ways = list(dict.fromkeys(row["way"] for row in rows))
    lines = [
        "BOIN12 beside 10,000 trials in random scenarios in each of 30 settings (36, 54 or 90 patients) of a review of "
        "designs: mean squares of differences in standard errors, and the largest difference:",
        "",
        f"| what | {' | '.join(ways)} |",
        f"| --- |{' --- |' * len(ways)}",
    ]
    for name, what in words.items():
        cells = [f"{row['mean_square']:g} ({row['largest']:g})" for row in rows if row["measure"] == name]
        lines.append(f"| {what} | {' | '.join(cells)} |")
    return [*lines, "", "Made by `python benchmarks/trial_review.py`.", ""]


def command_line() -> str:
    """The page docs/reference/command-line.md: every command with its arguments and options."""
    return "\n" + "\n\n".join(_commands(typer.main.get_command(app), "conebandit")) + "\n"


def _commands(command: Any, name: str) -> Iterator[str]:
    """A section for the command, and one for each command below it."""
    rows = [_option(parameter) for parameter in command.params if not parameter.hidden]
    table = ["", "| argument or option | meaning | default |", "| --- | --- | --- |", *rows] if rows else []
    about = " ".join((command.help or "").split())
    yield "\n".join([f"## {name}", "", about, *table])
    for below, each in getattr(command, "commands", {}).items():
        yield from _commands(each, f"{name} {below}")


def _option(parameter: Any) -> str:
    """The row of an argument or option."""
    argument = parameter.param_type_name == "argument"
    name = parameter.opts[0].strip("_").upper() if argument else parameter.opts[0]
    default = parameter.default
    unset = default is None or default is False
    said = ("needed" if parameter.required else "") if unset else f"`{default}`"
    if parameter.envvar:
        said += f"{' ' if said else ''}(or `{parameter.envvar}`)"
    return f"| `{name}` | {parameter.help} | {said} |"


A_DAY, PEAK, DAY = 1e9, 3.0, 86_400  # decisions; how many times busier the busiest hour is than the average; seconds


def scale() -> str:
    """What a billion decisions a day takes: measured on one machine, and extrapolated from there."""
    edge = {(row["what"], row["of"]): row for row in results("scale_edge")["rows"]}
    longest = {row["policy"]: row for row in results("scale_logs")["rows"] if row.get("rows") == 10_000_000}

    peak = A_DAY / DAY * PEAK
    many, single = "decisions at an edge, decide_many (1000)", "decisions at an edge, decide"
    lines = ["| | measured here | a billion a day (extrapolated) |", "| --- | --- | --- |"]

    def line(what: str, measured: str, extrapolated: str) -> None:
        lines.append(f"| {what} | {measured} | {extrapolated} |")

    line("decisions a second", "", f"{A_DAY / DAY:,.0f} on average, {peak:,.0f} at {PEAK:g} times that")
    for policy, name in (("ConeTree", "`ConeTree`"), ("ConeKernel", "the default policy")):
        for way, words in ((many, "in batches"), (single, "one by one")):
            rate = edge[way, policy]["of_one_core"]
            line(f"edge, {name}, {words}", f"{rate:,} a second and core", f"{peak / rate:.1f} cores at the peak")
    for store in ("SQLite", "PostgreSQL"):
        rate = edge["decisions of 1 edge into the store, in the log", store]["a_second"]
        line(
            f"into the log, {store}", f"{rate:,} a second", f"{peak / rate:.1f} logs side by side, outcomes not counted"
        )
        size = edge["bytes of a decision in the store, indexes included", store]["bytes"]
        line(f"bytes of a decision, {store}", f"{size:,}", f"{size * A_DAY / 1e12:.2f} TB a day, outcomes not counted")
    spool = edge["bytes of a decision in the spool", "SQLite"]["bytes"]
    line("bytes of a decision, spool", f"{spool:,}", f"{spool * peak * 3600 / 1e9:,.0f} GB for an hour without service")
    for policy, name in (("ConeTree", "`ConeTree`"), ("default", "the default policy")):
        rate = longest[policy]["rows_per_second"]
        line(
            f"learning, {name}, K = 10, d = 2",
            f"{rate:,.0f} rows a second",
            f"{A_DAY / rate / 3600:.1f} hours of one core a day",
        )
    return "\n".join(lines)


PAGES: dict[str, Callable[[], str]] = {
    "README.md": paragraph,
    "docs/which-policy.md": evidence,
    "docs/leaderboard-trials.md": real_trials,
    "docs/kernel.md": kernel_constants,
    "docs/constants.md": turned_constants,
    "docs/shift.md": streams,
    "docs/reference/command-line.md": command_line,
    "docs/trials.md": trial_designs,
    "docs/scale.md": scale,
}


def main() -> None:
    for name, written in PAGES.items():
        page = ROOT / name
        text = page.read_text()
        before, after = text.split(START)[0], text.split(END)[1]
        page.write_text(f"{before}{START}\n{written()}\n{END}{after}")


if __name__ == "__main__":
    main()
