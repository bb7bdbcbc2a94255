"""The status page and its JSON: a small app of the api-server that reads and never writes.

Changes are made by DAGs with Airflow's permissions; the page links to them. Every path needs a signed-in user with
access to Airflow's view "cluster activity".
"""

from typing import Any, Final

from airflow.api_fastapi.auth.managers.models.resource_details import AccessView
from airflow.api_fastapi.core_api.security import requires_access_view
from fastapi import Depends, FastAPI, Request
from fastapi.responses import HTMLResponse, JSONResponse

from tanist.airflow.page import policy, render
from tanist.airflow.status_cache import StatusCache

PREFIX: Final = "/tanist"

app = FastAPI(
    title="Tanist",
    dependencies=[Depends(requires_access_view(AccessView.CLUSTER_ACTIVITY))],
    docs_url=None,  # these would be open to everybody
    redoc_url=None,
    openapi_url=None,
)
app.state.readings = StatusCache()

_HEADERS: Final = {"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff"}


@app.get("/status.json")
async def status(request: Request) -> JSONResponse:
    """What the page shows, shaped as every JSON of the command line."""
    return JSONResponse(await _answer(request), headers=_HEADERS)


@app.get("/")
async def page(request: Request) -> HTMLResponse:
    """Can I fail over now? And why."""
    return HTMLResponse(render(await _answer(request)), headers={**_HEADERS, "Content-Security-Policy": policy()})


async def _answer(request: Request) -> dict[str, Any]:
    found: dict[str, Any] = await request.app.state.readings.answer()
    return found
