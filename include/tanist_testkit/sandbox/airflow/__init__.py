"""A whole Airflow on this machine: four components and a PostgreSQL of their own. Never for data that matters."""
