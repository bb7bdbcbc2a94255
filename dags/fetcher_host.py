"""Run the fetcher in Airflow: unpaused = running, paused = stopped.

A trigger of this DAG runs one fetcher for each cluster in `TANIST_DESTINATIONS` (environment or Airflow Variable), as a
child process of one triggerer. A fetcher that ends by itself restarts after 2 to 60 seconds, and a run of this DAG logs
why it ended. The fetcher logs to the triggerer's log; its health is on the page *Tanist*. `TANIST_METRICS_PORT` is the
port for Prometheus metrics of the first cluster's fetcher on the triggerer's host; those of the others follow it.

Clusters are Airflow connections of type `kafka`, which are read when a fetcher first needs them. After you change a
connection, pause and unpause this DAG.
"""

import logging
from datetime import timedelta
from typing import Any

from airflow.sdk import DAG, Asset, AssetAny, AssetWatcher, task

from tanist.airflow.connections import destinations, metrics_port
from tanist.airflow.host import FetcherHost, describe_events

fetchers = [
    Asset(
        f"tanist_fetcher_{name}",
        watchers=[AssetWatcher(name=f"tanist_fetcher_{name}", trigger=FetcherHost(name, metrics_port(number)))],
    )
    for number, name in enumerate(destinations())
]

with DAG(
    "fetcher_host",
    description="Runs the fetcher: unpaused = running, paused = stopped",
    doc_md=__doc__,
    schedule=AssetAny(*fetchers) if fetchers else None,
    catchup=False,
    max_active_runs=1,
    tags=["tanist", "kafka"],
    default_args={"owner": "tanist", "retries": 2, "retry_delay": timedelta(seconds=5)},
):

    @task
    def say_why_it_ended(triggering_asset_events: Any = None) -> None:
        """One line for each fetcher that has ended by itself, and the last lines of its log."""
        for line in describe_events(triggering_asset_events):
            logging.getLogger(__name__).info(line)

    say_why_it_ended()
