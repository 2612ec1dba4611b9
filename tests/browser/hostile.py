"""Experiments whose names and sizes try to break a page."""

SCRIPT = "<script>window.broken=1</script>"
IMAGE = "<img/src=x/onerror='window.broken=1'>"
FORMULA = "=cmd|'/C=calc'!A0"
TEMPLATE = "{{7*7}}{%raw%}"
QUOTES = '"/onmouseover="window.broken=1"/x=\''
# Texts that may have any signs: ids of decisions and of units, actors, reasons, units of metrics.
TEXTS = [SCRIPT, IMAGE, FORMULA, TEMPLATE, QUOTES, "../../static/x", "%2e%2e%2f?a=b#c", "a" * 60]
# Names of arms, metrics, columns and levels have letters, digits and few signs; letters may run from right to left.
HEBREW, ARABIC, LONG = "שלום עולם", "مرحبا", "a-rather-long-name-without-spaces-" + "x" * 28


def hostile_experiments():
    """Declarations, each with an id that says what is wrong with it."""
    names = {
        "id": "names",
        "arms": [HEBREW, ARABIC, "x/../y", "日本語 / +1.0", LONG, "null", "7:7"],
        "metrics": [
            {"name": LONG, "units": IMAGE[:32]},
            {"name": HEBREW, "direction": "min", "worst": 1, "units": "{{ 7 * 7 }}"},
            {"name": "日本語", "units": "<b>%</b>"},
        ],
        "context": [
            {"name": LONG, "low": -1e9, "high": 1e9},
            {"name": HEBREW, "levels": [LONG, "false", "9" * 50]},
        ],
        "rules": [{"name": "nul/l", "burn_in": 5}],
        "unit": {},
    }
    many_arms = {
        "id": "static",  # also a folder of the dashboard
        "arms": [f"arm {k}" for k in range(200)],
        "metrics": [{"name": "a"}, {"name": "b"}],
        "context": [{"name": "x", "low": 0, "high": 1}],
        "policy": "ParetoUCB1",
    }
    many_metrics = {
        "id": "metrics",
        "arms": ["a", "b", "c"],
        "metrics": [{"name": f"metric {m}"} for m in range(16)],
        "context": [{"name": f"column {c}", "low": 0, "high": 1} for c in range(30)],
        "policy": "ParetoUCB1",
    }
    empty = {
        "id": "empty",
        "arms": ["a", "b"],
        "metrics": [{"name": "m"}, {"name": "n"}],
        "context": [{"name": "x", "low": 0, "high": 1}],
    }
    bare = {"id": "bare", "arms": ["only"], "metrics": [{"name": "m"}]}
    draft = {"id": "sign-in", "arms": ["a", "b"], "metrics": [{"name": "m"}], "stage": "draft"}
    return [names, many_arms, many_metrics, empty, bare, draft]
