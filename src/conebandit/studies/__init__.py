"""Many policies in many environments: suites, studies and leaderboards."""
