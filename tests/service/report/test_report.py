"""Reports: what they tell follows from the log alone, is what the service says, and needs nothing from elsewhere."""

import json
import random
import re
import shlex
import time
from concurrent.futures import ThreadPoolExecutor
from threading import Event

import httpx
import pytest
from typer.testing import CliRunner

from conebandit._version import __version__
from conebandit.cli import app
from conebandit.service.dashboard.counts.tallies import read_tally
from conebandit.service.dashboard.views import report as views_report
from conebandit.service.errors import ServiceError
from conebandit.service.export import export
from conebandit.service.http.server import serving
from conebandit.service.report import pdf
from conebandit.service.report.facts import gather
from conebandit.service.report.findings import find, typical_context
from conebandit.service.report.make import facts_now
from conebandit.service.report.page import question, report_body, report_page, settings
from conebandit.service.shift import ShiftWatch
from conebandit.service.stores.base import open_store
from tests.pages.elements import Elements
from tests.service.dashboard.test_progress import Tables
from tests.service.driver import HOUR, Driver, assert_same
from tests.service.test_erasure import ANN, SECRETS
from tests.service.test_erasure import fill as fill_units
from tests.service.test_units import begin as begin_units

MADE = 1_700_000_000_000
RULES = [
    {"metric": "latency", "above": 5, "error": 0.05, "then": "suspend"},
    {"at_most": 5000},
    {"burn_in": 10, "name": "first"},
]


def fill(run, decisions, corrections=True):
    rng, ids = random.Random(0), []
    for step in range(decisions):
        run.ask_at_random(rng, ids, step)
        if rng.random() < 0.8:
            run.tell(ids[-1], revenue=rng.gauss(1, 1), latency=rng.uniform(0, 9))
        run.now += HOUR // 5
    if corrections:
        run.tell("d1", revenue=7.0)
        run.void([{"id": "d2", "reason": "a test"}])
        run.correct_context([{"id": "d3", "context": {"age": 90, "device": "desk"}, "reason": "mixed up"}])


def ruled(declaration):
    declaration["metrics"][1]["range"] = [0, 10]
    return {**declaration, "rules": RULES}


@pytest.fixture
def run(store, declaration):
    run = Driver(store)
    run.create(ruled(declaration))
    return run


@pytest.fixture
def one(tmp_path, declaration):
    """On SQLite alone; where it is, is in ``path``."""
    store = open_store(str(tmp_path / "log.db"))
    run = Driver(store)
    run.create(ruled(declaration))
    yield run
    store.close()


@pytest.fixture
def path(one, tmp_path):
    return str(tmp_path / "log.db")


# ---- from the log alone ---------------------------------------------------------------------------------------------


def test_a_report_is_the_same_whenever_it_is_made(run):
    fill(run, 60)
    first = report_page(facts_now(run.store, "checkout"), MADE)
    assert report_page(facts_now(run.store, "checkout"), MADE) == first
    later = report_page(facts_now(run.store, "checkout"), MADE + 86_400_000)
    assert first.replace("Made 2023-11-14 22:13:20 UTC", "Made 2023-11-15 22:13:20 UTC") == later
    run.write_snapshot()
    assert report_page(facts_now(run.store, "checkout"), MADE) == first, "from a snapshot on, too"


def test_a_report_of_the_past_is_what_it_was_then(one):
    fill(one, 50)
    tally = read_tally(one.store, "checkout")
    watch = ShiftWatch(one.store)
    then = report_body(gather(one.store, tally, watch))
    one.ask("more")
    one.tell("more", revenue=100.0)
    assert report_body(gather(one.store, tally, ShiftWatch(one.store))) == then
    assert report_body(facts_now(one.store, "checkout")) != then


def test_an_exported_log_gives_the_same_report(one, path, tmp_path):
    fill(one, 40)
    file = tmp_path / "checkout.jsonl"
    file.write_bytes(b"".join(export(one.store, "checkout", "jsonl")))
    for source, to in ((["checkout", "--store", path], "a.html"), ([str(file)], "b.html")):
        done = CliRunner().invoke(app, ["report", *source, "--to", str(tmp_path / to)])
        assert done.exit_code == 0, done.output
    bodies = [(tmp_path / to).read_text().partition("<footer>")[0] for to in ("a.html", "b.html")]
    assert bodies[0] == bodies[1]
    assert "Report on checkout" in bodies[0]
    assert not list(tmp_path.glob("*.part"))


def test_nothing_of_who_was_erased_is_in_a_report(store, declaration):
    run = begin_units(store, declaration)
    fill_units(run)
    assert run.erase(ANN, "consent withdrawn")["decisions"] == 1
    page = report_page(facts_now(store, "checkout"), MADE)
    assert not [secret for secret in SECRETS if secret in page]
    assert "<dt>units erased</dt><dd>1</dd>" in page
    assert "void: 0, erased: 1" in page


# ---- what it tells --------------------------------------------------------------------------------------------------


def test_what_it_tells_is_what_the_service_says(run):
    fill(run, 120)
    facts = facts_now(run.store, "checkout")
    digest = run.digest()
    assert (facts.head.seq, facts.head.check, facts.state) == (digest["events"], digest["check"], digest["state"])
    assert_same(facts.policy, run.policy())
    assert [rule.to_dict() for rule in facts.rules] == run.rules()["rules"]
    assert facts.shift == ShiftWatch(run.store).report("checkout")
    findings = find(facts)
    assert sum(each.segment.share for each in findings.found) == pytest.approx(1.0)
    for each in findings.found:
        front = run.front(each.typical)
        assert {arm.arm for arm in each.arms if arm.on_front} == {arm["arm"] for arm in front["arms"]}
        for arm in front["arms"]:
            mine = next(mine for mine in each.arms if mine.arm == arm["arm"])
            assert [mine.estimates[name].estimate for name in arm["estimates"]] == [
                pytest.approx(told["mean"]) for told in arm["estimates"].values()
            ]
    page = report_page(facts, MADE)
    assert "LinearParetoUCB has no simultaneous ones" in page
    assert f"conebandit verify checkout --expect {facts.head.seq}:{facts.head.check}" in page
    assert f"Made 2023-11-14 22:13:20 UTC by conebandit {__version__}." in page
    assert "<dt>contexts corrected</dt><dd>1</dd>" in page
    assert "<dt>values corrected by other values</dt><dd>1</dd>" in page
    assert "the first 10 decisions: any arm" in page
    assert settings(facts)["burn-in: first decisions drawn from all arms"] == "10"
    assert settings(facts)["seed"] == "7"
    for line in facts.experiment.to_toml().split("\n"):
        assert line.replace('"', "&#34;") in page


def test_arms_that_rules_leave_out_are_told(tmp_path, declaration):
    run = Driver(open_store(str(tmp_path / "log.db")))
    run.create({**declaration, "rules": [{"name": "few", "arm": "new", "at_most": 3}]})
    fill(run, 60, corrections=False)
    facts = facts_now(run.store, "checkout")
    assert facts.tally.decisions["new"] == 3
    page = report_page(facts, MADE)
    assert "Left out by a safety rule: new. Where such an arm is recommended, another one is served." in page
    assert re.search(r'<th scope="row">new</th>.*<td>left out by a safety rule</td></tr>', page)
    assert re.search(r'<th scope="row">old</th>.*<td>can be served</td></tr>', page)
    run.store.close()


def test_an_alarm_has_its_time(one):
    rng = random.Random(0)
    for start in range(0, 2400, 400):
        ages = [rng.uniform(*([18, 50] if start < 1200 else [60, 98])) for _ in range(400)]
        one.decide([{"id": f"d{start + i}", "context": {"age": age, "device": "phone"}} for i, age in enumerate(ages)])
        one.now += HOUR
    facts = facts_now(one.store, "checkout")
    noticed, since = (time[:16].replace("T", " ") for time in (facts.shift.alarm.noticed_at, facts.shift.alarm.since))
    assert f"Noticed {noticed} UTC, probably so since {since} UTC." in report_page(facts, MADE)


def test_intervals_are_simultaneous_where_the_policy_has_such(tmp_path, declaration):
    store = open_store(str(tmp_path / "kernel.db"))
    run = Driver(store)
    run.create({**declaration, "policy": {"name": "ConeKernel"}})
    fill(run, 80, corrections=False)
    facts = facts_now(store, "checkout")
    findings = find(facts)
    assert findings.simultaneous
    assert "Intervals are simultaneous" in report_page(facts, MADE)
    for each in findings.found:
        x = facts.experiment.encode(each.typical)[None]
        radii = run.policy().radii(x, level=0.95, simultaneous=True)[0]
        for arm in each.arms:
            interval = arm.estimates["revenue"]
            wanted = radii[facts.experiment.arms.index(arm.arm), 0]
            assert (interval.high - interval.low) / 2 == pytest.approx(wanted)
    store.close()


def test_a_cost_is_told_as_a_cost(one):
    fill(one, 10)
    said = " ".join(question(facts_now(one.store, "checkout")))
    assert "latency: less is better" in said
    assert "More revenue and less latency are better." in said


def test_a_typical_context_is_in_its_segment(one):
    fill(one, 120)
    facts = facts_now(one.store, "checkout")
    contexts = facts.tally.sample.x
    for each in find(facts).found:
        members = contexts[each.segment.has(facts.experiment.columns, contexts)]
        typical = facts.experiment.encode(typical_context(facts.experiment, each.segment, members))
        assert each.segment.has(facts.experiment.columns, typical[None]).all()


def test_the_checksum_in_a_report_can_be_verified(one, path):
    fill(one, 30)
    page = report_page(facts_now(one.store, "checkout"), MADE)
    command = shlex.split(re.search(r"<pre>conebandit (verify [^<]*)</pre>", page)[1])
    done = CliRunner().invoke(app, [*command, "--store", path])
    assert (done.exit_code, "1 anchors" in done.output) == (0, True), done.output
    with one.store.read() as session:
        state = one.digest()["state"]
        assert session.head("checkout").check in page
    assert state in done.output
    assert state in page


# ---- nothing from elsewhere, whatever the names are -----------------------------------------------------------------


NAMES = ["1 + 1", "x" * 64, "\u05d0\u05d1\u05d2 \u05d3", "a.b:c/d-e"]  # all that a name may be
MARKUP = "<script>alert(1)</script>"


def hostile(declaration):
    return {
        **declaration,
        "arms": NAMES,
        "metrics": [{"name": name, "units": "<b>&"} for name in NAMES],
        "context": [{"name": "x" * 64, "low": 0, "high": 1}, {"name": "what", "levels": NAMES}],
        "rules": [{"at_most": 45, "name": "1 + 1"}],
    }


@pytest.mark.parametrize("decisions", [0, 40])
def test_what_people_write_is_text(tmp_path, declaration, decisions):
    store = open_store(str(tmp_path / "log.db"))
    run = Driver(store)
    run.create(hostile(declaration))
    rng = random.Random(0)
    for i in range(decisions):
        run.ask(f"d{i}", {"x" * 64: rng.random(), "what": rng.choice(NAMES)})
        run.tell(f"d{i}", **{name: rng.random() for name in NAMES})
    run.set_stage("paused", MARKUP)
    page = report_page(facts_now(store, "checkout"), MADE)
    elements = Elements(page)
    assert "&lt;script&gt;" in page
    assert not {tag for tag, *_ in elements.seen} & {"script", "img", "b", "iframe", "object"}
    for tag, attributes, _ in elements.seen:
        assert not [name for name in attributes if name.startswith("on") or name == "style"], tag
        for name in ("href", "src"):
            assert attributes.get(name, "data:,") == "data:,"
    assert "@import" not in page
    assert "url(http" not in page
    store.close()


@pytest.mark.parametrize(
    "changes",
    [
        {"arms": ["only"]},
        {"arms": [f"arm {i}" for i in range(200)]},
        {"metrics": [{"name": f"m{i}"} for i in range(16)]},
        {"context": []},
        {"context": [{"name": f"c{i}", "low": 0, "high": 1} for i in range(100)], "arms": ["a", "b"]},
    ],
)
@pytest.mark.parametrize("decisions", [0, 30])
def test_experiments_of_every_size_have_a_report(tmp_path, declaration, changes, decisions):
    store = open_store(str(tmp_path / "log.db"))
    run = Driver(store)
    run.create({**declaration, **changes})
    columns = [column.name for column in run.state.experiment.columns]
    metrics = [metric.name for metric in run.state.experiment.metrics]
    rng = random.Random(0)
    for i in range(decisions):
        context = {name: "phone" if name == "device" else 0.3 if name != "age" else 40 for name in columns}
        run.ask(f"d{i}", context)
        run.tell(f"d{i}", **{name: rng.random() for name in metrics})
    page = report_page(facts_now(store, "checkout"), MADE)
    Elements(page)
    assert ("Nothing has been learned yet" in page) == (not decisions)
    assert "nan" not in re.sub(r"<[^>]*>", " ", page).split()
    store.close()


# ---- the command ----------------------------------------------------------------------------------------------------


def test_the_command_writes_html_where_it_is_told(one, path, tmp_path, monkeypatch):
    fill(one, 20)
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(app, ["report", "checkout", "--store", path])
    assert (done.exit_code, done.output.strip()) == (0, "checkout.html")
    assert (tmp_path / "checkout.html").read_text().startswith("<!doctype html>")
    for arguments, words in (
        (["nothing", "--store", path], "there is no experiment 'nothing'"),
        (["checkout", "--store", str(tmp_path / "no.db")], "there is no store"),
        (["checkout", "--store", path, "--to", "report.docx"], "--to must be a file .html or .pdf"),
        (["missing.jsonl"], "missing.jsonl"),
    ):
        done = CliRunner().invoke(app, ["report", *arguments])
        assert (done.exit_code, words in done.output) == (1, True), done.output
        assert len(done.output.strip().splitlines()) == 1


def test_without_chromium_there_is_no_pdf_and_it_is_said_at_once(one, path, tmp_path, monkeypatch):
    monkeypatch.setattr(pdf, "NAMES", ())
    done = CliRunner().invoke(app, ["report", "checkout", "--store", path, "--to", str(tmp_path / "r.pdf")])
    assert done.exit_code == 1
    assert "PDF needs Chromium, and there is none on this machine" in done.output
    assert not list(tmp_path.glob("*.pdf*"))


def test_a_browser_that_does_not_print_is_told_of(monkeypatch):
    monkeypatch.setattr(pdf, "NAMES", ("false",))
    with pytest.raises(ServiceError, match="did not print the report"):
        pdf.to_pdf("<p>hello")
    monkeypatch.setattr(pdf, "NAMES", ("true",))  # ends well, and has written nothing
    with pytest.raises(ServiceError, match="did not print the report"):
        pdf.to_pdf("<p>hello")


def test_chromium_prints_a_report(one, path, tmp_path):
    if pdf.chromium() is None:
        pytest.skip("Chromium is not installed (apt-get install chromium)")
    fill(one, 20)
    file = tmp_path / "report.pdf"
    done = CliRunner().invoke(app, ["report", "checkout", "--store", path, "--to", str(file)])
    assert done.exit_code == 0, done.output
    content = file.read_bytes()
    assert content.startswith(b"%PDF-")
    assert len(content) > 10_000


# ---- in the dashboard -----------------------------------------------------------------------------------------------


def test_the_dashboard_shows_the_report_of_the_command(one, path, tmp_path):
    fill(one, 40)
    one.store.close()
    CliRunner().invoke(app, ["report", "checkout", "--store", path, "--to", str(tmp_path / "r.html")])
    wanted = (tmp_path / "r.html").read_text().partition("<main>")[2].partition("</main>")[0]
    with serving(path) as url, httpx.Client(base_url=url, timeout=60) as client:
        here = "/dashboard/experiments/checkout/report"
        first = client.get(here)
        assert first.status_code == 200
        assert f'hx-get="{here}/body"' in first.text
        body = client.get(f"{here}/body", headers={"hx-request": "true"})
        assert body.text == wanted
        assert "style-src 'self'" in body.headers["content-security-policy"]
        assert wanted in client.get(f"{here}/body").text
        file = client.get(f"{here}/file")
        assert file.headers["content-disposition"] == 'attachment; filename="checkout.html"'
        assert wanted in file.text
        assert client.get(f"{here}/file", params={"format": "exe"}).status_code == 422
        assert client.get("/dashboard/experiments/nothing/report").status_code == 404
        assert client.get("/dashboard/experiments/nothing/report/file").status_code == 404
        decisions = Tables(body.text)
        served = client.get("/experiments/checkout").json()
        assert {arm["name"] for arm in served["arms"]} <= {row[0] for table in decisions.tables for row in table if row}
        client.post("/experiments/checkout/decisions", json={"id": "more", "context": {"age": 20, "device": "desk"}})
        time.sleep(0.3)
        again = client.get(f"{here}/body", headers={"hx-request": "true"}).text
        events = client.get("/experiments/checkout/state").json()
        assert f"{events['events']}:{events['check']}" in again
        assert json.loads(client.get("/experiments").text) == ["checkout"]


def test_pdf_is_offered_where_it_can_be_made(one, path, monkeypatch):
    one.store.close()
    monkeypatch.setattr(pdf, "NAMES", ())
    with serving(path) as url, httpx.Client(base_url=url, timeout=60) as client:
        here = "/dashboard/experiments/checkout/report"
        assert "PDF needs Chromium on the server" in client.get(here).text
        refused = client.get(f"{here}/file", params={"format": "pdf"})
        assert (refused.status_code, "PDF needs Chromium" in refused.text) == (422, True)
        monkeypatch.setattr(pdf, "NAMES", ("true",))
        assert "format=pdf" in client.get(here).text


def test_a_pdf_that_takes_long_keeps_nobody_else_waiting(one, path, monkeypatch):
    one.store.close()
    begun, done = Event(), Event()

    def print_slowly(page):
        begun.set()
        assert done.wait(60)
        return b"%PDF of " + page[:5].encode()

    monkeypatch.setattr(views_report, "to_pdf", print_slowly)
    monkeypatch.setattr(views_report, "MAX_WAIT", 0.2)
    here = "/dashboard/experiments/checkout/report"
    with serving(path) as url, httpx.Client(base_url=url, timeout=60) as client, ThreadPoolExecutor(1) as threads:
        first = threads.submit(client.get, f"{here}/file", params={"format": "pdf"})
        try:
            assert begun.wait(60)
            assert client.get(f"{here}/file").status_code == 200
            assert client.get(f"{here}/body").status_code == 200
            second = client.get(f"{here}/file", params={"format": "pdf"})
        finally:
            done.set()
        assert (second.status_code, second.headers["retry-after"]) == (503, "0")
        assert "Another PDF is being made" in second.text
        assert first.result().content == b"%PDF of <!doc"
        again = client.get(f"{here}/file", params={"format": "pdf"})
        assert again.status_code == 200, "whoever has failed or waited in vain has left nothing locked"
