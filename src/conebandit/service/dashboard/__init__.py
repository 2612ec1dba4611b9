"""The dashboard: pages for people who run an experiment, served by the service itself.

- ``sessions`` lets people in, ``pages`` is what every view is registered with, ``app`` puts the views together.
- ``views`` has one file for each view; their templates are in ``conebandit/pages/templates/dashboard``.
- ``looks`` gives a view an experiment as it was a moment ago, with a copy of its policy, so that nothing that a view
  computes makes a decision wait.
- ``counts``, ``words``, ``arms``, ``segments`` and ``past`` are what views compute, apart from how it is shown.
"""
