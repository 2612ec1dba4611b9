"""Experiments whose names and sizes try to break a page."""

SCRIPT = "<script>window.broken = 1</script>"
IMAGE = "<img src=x onerror='window.broken = 1'>"
FORMULA = "=cmd|' /C calc'!A0"
TEMPLATE = "{{ 7 * 7 }}{% raw %}"
QUOTES = '" onmouseover="window.broken = 1" x=\''
BACKWARDS = "abc\u202efed\u2066"
LONG = "a rather long name " * 3


def hostile_experiments():
    """Declarations, each with an id that says what is wrong with it."""
    names = {
        "id": "names",
        "arms": [SCRIPT, IMAGE, FORMULA, TEMPLATE],
        "metrics": [{"name": SCRIPT, "units": "<b>%</b>"}, {"name": FORMULA, "direction": "min", "worst": 1}],
        "context": [
            {"name": IMAGE, "low": 0, "high": 1},
            {"name": TEMPLATE, "levels": [SCRIPT, FORMULA, QUOTES]},
        ],
        "rules": [{"name": IMAGE, "burn_in": 5}],
    }
    odd = {
        "id": "odd",
        "arms": [BACKWARDS, QUOTES, LONG, "日本語", "ℵ" * 20],
        "metrics": [{"name": LONG}, {"name": "日本語"}, {"name": QUOTES}],
        "context": [{"name": QUOTES, "low": -1e9, "high": 1e9}, {"name": LONG, "levels": ["x" * 50, "y"]}],
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
    return [names, odd, many_arms, many_metrics, empty, bare, draft]
