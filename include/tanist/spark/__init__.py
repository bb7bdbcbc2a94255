"""What runs inside Spark. Reached through spark-submit only: the control plane needs neither a JVM nor numpy."""
