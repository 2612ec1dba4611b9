"""A report on one experiment, to print or to send: what was asked, done, learned and decided by which rules.

``facts`` gathers all of it at one position of the log, ``findings`` is what the policy says about segments, ``page``
makes the HTML, with ``pictures``, and ``pdf`` has Chromium print it. The dashboard and ``conebandit report`` (``make``)
share them.
"""
