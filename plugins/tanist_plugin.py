"""Airflow's way to Tanist: an entry in the navigation, and the status page behind it.

Airflow imports this file in every component and again in every task. Only the api-server builds the page.
"""

import sys
from typing import Any

from airflow.plugins_manager import AirflowPlugin


class TanistPlugin(AirflowPlugin):
    """The page is `tanist.airflow.web`."""

    name = "tanist"
    external_views: list[Any] = [  # noqa: RUF012 -- as Airflow declares it
        {"name": "Tanist", "href": "/tanist/", "destination": "nav", "url_route": "tanist"}
    ]
    fastapi_apps: list[Any] = []  # noqa: RUF012 -- as above

    if "api-server" in sys.argv[1:2]:
        from tanist.airflow.web import PREFIX, app  # noqa: PLC0415 -- and nothing of it anywhere else

        fastapi_apps = [{"app": app, "url_prefix": PREFIX, "name": "Tanist"}]
