"""Airflow inside the test process: a metadata database of its own, and no component running.

Airflow reads its settings when it is first imported, so they are in the environment before any test module is.
"""

from __future__ import annotations

import atexit
import json
import os
import shutil
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
HOME = Path(tempfile.mkdtemp(prefix="tanist-airflow-"))
USERS = {"admin": "admin", "op": "op", "op2": "op", "user": "user", "viewer": "viewer"}
"""Name (also the password) and role."""

atexit.register(shutil.rmtree, HOME, ignore_errors=True)
(HOME / "passwords.json").write_text(json.dumps({name: name for name in USERS}))
os.environ |= {
    "AIRFLOW_HOME": str(HOME),
    "AIRFLOW__CORE__DAGS_FOLDER": str(ROOT / "dags"),
    "AIRFLOW__CORE__PLUGINS_FOLDER": str(HOME / "plugins"),
    "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
    "AIRFLOW__CORE__UNIT_TEST_MODE": "False",
    "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_USERS": ",".join(f"{name}:{role}" for name, role in USERS.items()),
    "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_PASSWORDS_FILE": str(HOME / "passwords.json"),
    "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": f"sqlite:///{HOME}/airflow.db",
    "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN_ASYNC": f"sqlite+aiosqlite:///{HOME}/airflow.db",
    "AIRFLOW__API_AUTH__JWT_SECRET": "x" * 64,
    "AIRFLOW__API__SECRET_KEY": "y" * 32,
}
