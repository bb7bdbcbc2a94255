"""What runs inside Airflow: connections, tasks, gates. DAG files and the plugin talk to this package only."""
