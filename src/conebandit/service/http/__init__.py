"""The service over HTTP (FastAPI). Thin: it checks keys and forms, and leaves the rest to the engine.

- ``server`` runs it, ``app`` puts it together.
- ``routes`` has one file for each subject that can be asked about; ``backend`` is what the routes call.
- ``forms`` are the requests, ``replies`` the replies, ``errors`` the refusals.
- ``access`` says who may pass, ``keys`` makes and finds API keys.
- ``limits`` stands around every request; ``metrics`` is all that ``/metrics`` shows; ``logs`` are its lines.
- ``reference`` is the page at ``/docs``, from the OpenAPI schema, which ``schemas`` puts into words.
"""
