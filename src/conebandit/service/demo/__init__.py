"""``conebandit demo``: a trial that is simulated while one looks, on a service that is gone afterwards.

- ``world`` is what happens to patients, ``trial`` lets them arrive, ``commands`` is the command.
"""
