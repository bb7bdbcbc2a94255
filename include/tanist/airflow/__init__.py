"""Code that runs inside Airflow: connections, tasks, gates. DAG files and the plugin use this package only."""
