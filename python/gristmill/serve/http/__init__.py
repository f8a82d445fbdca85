"""`gristmill serve`: tokenizers over HTTP, with a playground page. Needs `gristmill[http]`.

`app.py` is the ASGI application: it finds the endpoint, reads bodies within limits and counts what
happens. `endpoints.py` says what each endpoint takes and gives, `requests.py` reads and checks the
JSON, `openapi.py` describes the same tables to programs, `metrics.py` to Prometheus, `page/` shows
it to people. `server.py` runs it all under uvicorn, with the limits on connections that uvicorn
has not.

Bad requests are answered, with what is wrong and where; they disturb nobody. Tested in
`test_http.py`, and from outside, by a browser and by schemathesis, in tests/browser.
"""
