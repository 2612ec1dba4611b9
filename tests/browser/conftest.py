"""A browser (Debian's Chromium, by playwright) and services to look at."""

from contextlib import contextmanager
from pathlib import Path

import httpx
import numpy as np
import pytest

from conebandit.service.http.server import serving
from conebandit.service.report.pdf import FLAGS, chromium
from tests.browser.hostile import TEXTS, hostile_experiments

AXE = (Path(__file__).parent / "axe.min.js").read_text()
SIZES = {"phone": (390, 844), "desk": (1280, 900), "projector": (1920, 1080)}
DOSES = ("placebo", "10 mg", "20 mg", "40 mg")
TRIAL = {
    "id": "trial",
    "arms": list(DOSES),
    "metrics": [
        {"name": "response", "units": "points", "resolution": 0.05},
        {"name": "toxicity", "direction": "min", "worst": 1, "range": [0, 1], "outside": "hold"},
    ],
    "context": [
        {"name": "age", "low": 18, "high": 90},
        {"name": "weight", "low": 40, "high": 120},
        {"name": "stage", "levels": ["early", "late"]},
    ],
    "rules": [{"name": "too toxic", "metric": "toxicity", "above": 0.5, "error": 0.05, "then": "suspend"}],
    "unit": {},
    "seed": 3,
}


@pytest.fixture(scope="module")
def browser():
    """Of one file alone: while playwright runs, no other test of the process could run an event loop."""
    playwright = pytest.importorskip("playwright.sync_api")
    program = chromium()
    if program is None:
        pytest.skip("needs Chromium")
    with playwright.sync_playwright() as running:
        opened = running.chromium.launch(executable_path=program, args=list(FLAGS))
        yield opened
        opened.close()


class Watched:
    """A page of a browser, and whatever went wrong on it."""

    def __init__(self, page):
        self.page, self.problems = page, []
        page.on("console", self._note)
        page.on("pageerror", lambda error: self.problems.append(str(error)))
        page.on("dialog", lambda dialog: (self.problems.append(f"dialog {dialog.message}"), dialog.dismiss()))
        page.on("requestfailed", self._note_failed)

    def _note(self, message):
        if message.type in ("error", "warning"):
            self.problems.append(message.text)

    def _note_failed(self, request):
        if request.failure != "net::ERR_ABORTED":  # a page that was left while it loaded something
            self.problems.append(f"{request.url}: {request.failure}")

    def too_wide(self):
        """By how many pixels the page is wider than the window."""
        return self.page.evaluate("document.documentElement.scrollWidth - window.innerWidth")

    def axe(self):
        """Serious findings of axe-core, in words. Pages may run no script that is not ours; who tests them may."""
        self.page.evaluate(AXE)
        found = self.page.evaluate("axe.run(document, {resultTypes: ['violations']})")
        return [
            f"{each['id']}: {each['help']}: {each['nodes'][0]['html'][:200]}"
            for each in found["violations"]
            if each["impact"] in ("serious", "critical")
        ]


@contextmanager
def settled(page):
    """Until what is done inside has changed the page. That a reply has come does not say that it is shown."""
    once = "document.addEventListener('htmx:afterSettle', () => done(true), {once: true})"
    page.evaluate(f"() => {{ window.settled = new Promise(done => {once}) }}")
    yield
    page.evaluate("() => window.settled")


@pytest.fixture
def watch(browser):
    """Opens pages of a size and a colour scheme; whatever went wrong on them fails the test."""
    contexts, watched = [], []

    def open_page(size="desk", scheme="light", **options):
        width, height = SIZES[size]
        context = browser.new_context(
            viewport={"width": width, "height": height}, color_scheme=scheme, reduced_motion="reduce", **options
        )
        contexts.append(context)
        watched.append(Watched(context.new_page()))
        return watched[-1]

    yield open_page
    for context in contexts:
        context.close()
    assert [problem for each in watched for problem in each.problems] == []


@contextmanager
def service_with(folder, declarations):
    with serving(str(folder / "log.db")) as address, httpx.Client(base_url=address, timeout=120) as client:
        for declaration in declarations:
            made = client.post("/experiments", json=declaration)
            assert made.status_code == 201, made.text
        yield address, client


def decision_of(number, patients=300):
    """What is asked for a patient of the trial: the old come later."""
    rng = np.random.default_rng(number)
    context = {
        "age": float(rng.uniform(18, 55) if number < patients / 2 else rng.uniform(45, 90)),
        "weight": float(rng.uniform(50, 110)),
        "stage": str(rng.choice(["early", "late"])),
    }
    return {"id": f"patient-{number}", "unit": f"unit-{number}", "context": context}


def fill(client, patients=300):
    """Patients of the trial; the last ones have not told anything yet."""
    rng = np.random.default_rng(0)
    asked = [decision_of(number, patients) for number in range(patients)]
    given = client.post("/experiments/trial/decisions", json={"decisions": asked})
    assert given.status_code == 200, given.text
    outcomes = []
    for decision, each in list(zip(given.json()["decisions"], asked, strict=True))[: patients - 20]:
        k, x = DOSES.index(decision["arm"]), each["context"]
        values = {"response": 0.3 * k - 0.004 * x["age"] + rng.normal(0, 0.2)}
        values["toxicity"] = float(rng.random() < 0.05 + 0.1 * k)
        outcomes.append({"id": decision["id"], "values": values})
    outcomes[0]["values"]["toxicity"] = 7.0  # held for somebody to look at
    told = client.post("/experiments/trial/outcomes", json={"outcomes": outcomes})
    assert told.status_code == 200, told.text


@pytest.fixture(scope="module")
def trial(tmp_path_factory):
    """A service with an experiment that has run for a while: its address, and a client."""
    with service_with(tmp_path_factory.mktemp("trial"), [TRIAL]) as (address, client):
        fill(client)
        yield address, client


@pytest.fixture(scope="module")
def hostile(tmp_path_factory):
    """A service with experiments that try to break a page: their ids, the address, and a client."""
    declarations = hostile_experiments()
    with service_with(tmp_path_factory.mktemp("hostile"), declarations) as (address, client):
        for declaration in declarations:
            if declaration["id"] not in ("empty", "sign-in"):
                some_traffic(client, declaration)
        yield [declaration["id"] for declaration in declarations], address, client


def some_traffic(client, declaration, count=40, seed=0):
    """Decisions and outcomes for any declaration."""
    rng = np.random.default_rng(seed)

    def context():
        drawn = {}
        for column in declaration.get("context", []):
            levels = column.get("levels")
            drawn[column["name"]] = (
                levels[rng.integers(len(levels))] if levels else rng.uniform(column["low"], column["high"])
            )
        return drawn

    path = f"/experiments/{declaration['id']}"
    client.headers["X-Actor"] = "<script>window.broken=1</script>"
    ids = [*TEXTS, *(f"d{i}" for i in range(count))]
    asked = [{"id": id_, "context": context()} | ({"unit": id_} if "unit" in declaration else {}) for id_ in ids]
    given = client.post(f"{path}/decisions", json={"decisions": asked})
    assert given.status_code == 200, given.text
    outcomes = [
        {"id": each["id"], "values": {metric["name"]: float(rng.random()) for metric in declaration["metrics"]}}
        for each in given.json()["decisions"]
    ]
    assert client.post(f"{path}/outcomes", json={"outcomes": outcomes}).status_code == 200
