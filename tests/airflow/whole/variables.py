"""Airflow's Variables, of an Airflow that several tests share."""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from tanist_testkit.sandbox.airflow.rest import AirflowRefused

if TYPE_CHECKING:
    from collections.abc import Callable


def name(call: Callable[..., Any], **variables: str) -> None:
    """Set them, also where a test before has set them to something else."""
    for key, value in variables.items():
        body = {"key": key, "value": value}
        try:
            call("POST", "/variables", body)
        except AirflowRefused as refused:
            if refused.status != HTTPStatus.CONFLICT:
                raise
            call("PATCH", f"/variables/{key}", body)
