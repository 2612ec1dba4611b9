"""Whatever follows the OpenAPI schema, or breaks it, never breaks the service (schemathesis)."""

import httpx
import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis.errors import Unsatisfiable
from schemathesis import GenerationMode

from conebandit.service.http.server import serving

EXAMPLES = 25


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    folder = tmp_path_factory.mktemp("schema")
    declaration = {
        "id": "checkout",
        "arms": ["old", "new"],
        "metrics": [{"name": "revenue"}, {"name": "latency", "direction": "min", "worst": 9}],
        "context": [{"name": "age", "low": 0, "high": 99, "missing": 40, "out_of_range": "clip"}],
        "policy": {"name": "ParetoUCB1"},
    }
    with serving(str(folder / "log.db")) as url:
        assert httpx.post(url + "/experiments", json=declaration).status_code == 201
        yield schemathesis.openapi.from_url(url + "/openapi.json"), url


@pytest.mark.parametrize("mode", [GenerationMode.POSITIVE, GenerationMode.NEGATIVE])
def test_nothing_leads_to_a_server_error(served, mode):
    schema, url = served
    operations = [result.ok() for result in schema.get_all_operations()]
    assert len(operations) == 30
    for operation in operations:
        statuses = _try_many(operation, mode, url)
        assert statuses, operation.label
        assert max(statuses) < 500, operation.label
    assert httpx.get(url + "/experiments/checkout/state").status_code == 200


def _try_many(operation, mode, url):
    statuses = set()

    @settings(
        max_examples=EXAMPLES, deadline=None, derandomize=True, database=None,
        phases=[Phase.generate], suppress_health_check=list(HealthCheck),
    )  # fmt: skip
    @given(case=operation.as_strategy(generation_mode=mode))
    def call(case):
        if "experiment" in (case.path_parameters or {}) and len(statuses) % 3 != 1:
            case.path_parameters["experiment"] = "checkout"  # most of the time one that is there
        response = case.call(base_url=url)
        statuses.add(response.status_code)
        assert response.status_code < 500, (case.as_curl_command(), response.text)

    try:
        call()
    except Unsatisfiable:  # a path without parameters cannot be asked for in a wrong way
        statuses.add(0)
    return statuses
