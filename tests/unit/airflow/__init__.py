"""The tests of what of airflow needs no Airflow."""
